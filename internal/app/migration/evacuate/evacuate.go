// Package evacuate takes pending messages out of the x-delayed-message plugin.
//
// An evacuation works in batches. Each batch is in two stages, so that it can be killed at any
// point and run again without a loss:
//
//	plugin's table ─ copied, confirmed ─→ queue <prefix>.migration.evacuated ─ through the Delayer ─→ waits there
//	   └ then removed
//
// A message is removed from the plugin's table once the queue has it, and from the queue once the
// Delayer has it. What an earlier run left in the queue comes first: it is removed from the table,
// and published. A message is published twice only if a run ended between two steps: before it was
// removed from the table, and then it fell due there; or between the Delayer's confirm and the
// acknowledgement. Both copies then have the same [RowHeader].
//
// Messages that the Delayer refuses go to the queue <prefix>.migration.refused, and are tried again
// in the next run. Messages that it would refuse and that the plugin can deliver stay in the
// plugin.
package evacuate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// Nodes are the nodes of the cluster. It is a *node.Control.
type Nodes interface {
	Pending(ctx context.Context) ([]node.Table, error)
	Rows(ctx context.Context, node string, q node.Query) (node.Batch, error)
	Remove(ctx context.Context, node, vhost string, rows []node.Entry) (int, node.Clock, error)
}

// A Job is one evacuation.
type Job struct {
	Nodes     Nodes
	Delayer   delayer.Delayer
	Broker    broker.Options
	Prefix    string
	Vhost     string
	Exchanges []string      // empty: all of the vhost
	Leave     time.Duration // messages that are due within it stay in the plugin
	Progress  func(Account) // called after each batch
}

const (
	// batchRows and batchBytes bound a batch, and with it this process's memory: it holds two.
	batchRows  = node.MostRemoved
	batchBytes = 16 << 20
	// batchFor bounds what is done with a batch, which is finished even after an interrupt.
	batchFor = 10 * time.Minute
)

// Pending counts what a job selects, by node and exchange. Unreached nodes make an error that is
// node.ErrUnreached, with the others' tables.
func (j Job) Pending(ctx context.Context) ([]node.Table, error) {
	tables, err := j.Nodes.Pending(ctx)
	for i := range tables {
		tables[i].Exchanges = slices.DeleteFunc(slices.Clone(tables[i].Exchanges), func(w node.Waiting) bool {
			return w.Vhost != j.Vhost || len(j.Exchanges) > 0 && !slices.Contains(j.Exchanges, w.Exchange)
		})
	}
	return tables, err
}

func sum(tables []node.Table) (rows int) {
	for _, t := range tables {
		for _, w := range t.Exchanges {
			rows += w.Rows
		}
	}
	return rows
}

// A run is a job at work.
type run struct {
	Job
	store    *store
	clocks   map[string]node.Clock // the last look at each node's clock
	counting sync.Mutex            // while messages are published
	account  Account
}

// Run evacuates. The account is valid with an error, too. Nodes that cannot be reached are left
// out, and named by the error.
func (j Job) Run(ctx context.Context) (Account, error) {
	r := &run{Job: j, clocks: map[string]node.Clock{}, account: Account{Left: map[string]int{}, Refused: map[string]int{}}}
	s, err := openStore(ctx, j.Broker, j.Prefix)
	if err != nil {
		return r.account, err
	}
	defer s.close()
	r.store = s
	err = r.all(ctx)
	return r.account, err
}

// all finishes what earlier runs have left, and evacuates each node. What is in the queue comes
// before the count of the tables, which takes seconds: nothing else would deliver it when it is
// due.
func (r *run) all(ctx context.Context) error {
	if err := r.recover(ctx); err != nil {
		return err
	}
	tables, unreached := r.Pending(ctx)
	if unreached != nil && !errors.Is(unreached, node.ErrUnreached) {
		return unreached
	}
	r.account.Before = r.account.Moved + sum(tables) // with what recover has removed
	for _, t := range tables {
		r.clocks[t.Node] = t.Clock
	}
	r.report()
	err := r.retryRefused(ctx)
	for _, t := range tables {
		if err == nil && len(t.Exchanges) > 0 {
			err = r.node(ctx, t.Node)
		}
	}
	if err == nil {
		err = r.count(ctx)
	}
	return errors.Join(err, unreached)
}

// count looks what has stayed. What was moved does not say it: the plugin has delivered some
// meanwhile, and an earlier run may have moved what was counted at the start.
func (r *run) count(ctx context.Context) error {
	tables, err := r.Pending(ctx)
	if err != nil && !errors.Is(err, node.ErrUnreached) { // those that Run has named
		return err
	}
	r.account.After = sum(tables)
	return nil
}

func (r *run) node(ctx context.Context, name string) error {
	next := r.read(ctx, name, nil)
	for {
		got := <-next
		if got.err != nil {
			return got.err
		}
		r.clocks[name] = got.Clock
		if !got.Last {
			next = r.read(ctx, name, got.Next)
		}
		err := r.batch(ctx, name, got.Rows)
		if err != nil && !got.Last {
			<-next
		}
		if err != nil || got.Last {
			return err
		}
	}
}

type readBatch struct {
	node.Batch
	err error
}

// read reads a batch while the one before is being published.
func (r *run) read(ctx context.Context, name string, after node.Cursor) <-chan readBatch {
	result := make(chan readBatch, 1)
	go func() {
		b, err := r.Nodes.Rows(ctx, name, node.Query{
			Vhost: r.Vhost, Exchanges: r.Exchanges, Later: r.Leave, After: after, MaxRows: batchRows, MaxBytes: batchBytes,
		})
		result <- readBatch{b, err}
	}()
	return result
}

// batch moves rows to the queue, removes them from the table, and publishes them.
func (r *run) batch(ctx context.Context, name string, batch []node.Row) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchFor)
	defer cancel()
	rows := r.fitting(name, batch)
	if len(rows) == 0 {
		r.report()
		return nil
	}
	entries := make([]node.Entry, len(rows))
	for i, s := range rows {
		entries[i] = node.Entry{ID: s.ID, Due: s.Due}
	}
	err := parallel(rows, func(s staged) error { return r.store.publish(ctx, Staging(r.Prefix), s.publishing()) })
	if err != nil {
		return err
	}
	removed, _, err := r.Nodes.Remove(ctx, name, r.Vhost, entries)
	if err != nil {
		return err
	}
	r.account.Twice += len(rows) - removed // the plugin has delivered these meanwhile
	r.account.Moved += len(rows)
	if err := r.settle(ctx, rows); err != nil {
		return err
	}
	r.report()
	return nil
}

// fitting returns the rows that the Delayer will take, ready for the queue. The others are counted.
// Those that are due soon by now stay in the plugin: a batch may have waited for the one before it.
func (r *run) fitting(name string, batch []node.Row) []staged {
	out := make([]staged, 0, len(batch))
	for _, row := range batch {
		if r.clocks[name].Until(row.Due) < r.Leave {
			continue
		}
		s := newStaged(name, row)
		if why := r.unfit(s, row); why != "" {
			r.account.Left[fmt.Sprintf("exchange %q: %s", row.Exchange, why)]++
			continue
		}
		out = append(out, s)
	}
	return out
}

func (r *run) report() {
	if r.Progress != nil {
		r.Progress(r.account)
	}
}

// An Account says what an evacuation has done.
type Account struct {
	Before    int // rows of the selected exchanges when it began
	Moved     int // out of the plugin's tables
	Found     int // left in the queues by earlier runs
	Published int // through the Delayer
	After     int // rows of the selected exchanges when it ended; 0 after an error
	// Twice counts messages that the plugin has delivered too, because they fell due meanwhile.
	Twice int
	// Perhaps counts messages that an earlier run, which was killed, may have published too.
	Perhaps int
	// Left counts what stays in the plugin although it is due later than Job.Leave, by the reason.
	Left map[string]int
	// Refused counts what is in the queue for refused messages now, by the reason.
	Refused map[string]int
}

// Sum adds up one of the maps.
func Sum(reasons map[string]int) (n int) {
	for _, count := range reasons {
		n += count
	}
	return n
}
