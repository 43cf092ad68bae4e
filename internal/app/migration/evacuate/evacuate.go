// Package evacuate takes pending messages out of the x-delayed-message plugin.
//
// It works in batches of rows of the plugin's table. Each row is published through the Delayer, and
// removed from the table once the Delayer has confirmed it. So it can be killed at any point and
// run again without a loss. What was published and not removed yet is published again then: at most
// a batch comes twice. A message comes twice, too, if it falls due in the plugin before it is
// removed: that is counted.
//
// Messages that the Delayer refuses stay in the plugin.
package evacuate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// Nodes are the nodes of the cluster. It is a *node.Control.
type Nodes interface {
	Pending(ctx context.Context) ([]node.Table, error)
	Rows(ctx context.Context, node string, q node.Query) (node.Batch, error)
	Remove(ctx context.Context, node, vhost string, rows []node.Row) (int, error)
}

// A Job is one evacuation.
type Job struct {
	Nodes     Nodes
	Delayer   delayer.Delayer
	Broker    broker.Options // for the lock
	Prefix    string
	Vhost     string
	Exchanges []string      // empty: all of the vhost
	Leave     time.Duration // messages that are due within it stay in the plugin
	Progress  func(Account) // called after each batch
}

// An Account says what an evacuation has done.
type Account struct {
	Before int // rows of the selected exchanges when it began
	Moved  int // published through the Delayer, and out of the plugin's tables
	After  int // rows of the selected exchanges when it ended; 0 after an error
	// Twice counts messages that the plugin has delivered too, because they fell due meanwhile.
	Twice int
	// Left counts what stays in the plugin although it is due later than Job.Leave, by the reason.
	Left map[string]int
}

// RowHeader is the header of evacuated messages that their consumers see beside [delayer.Header].
// It is the id of the row in the plugin's table: a message that is evacuated twice carries the same.
const RowHeader = "x-delayer-row"

const (
	// batchRows bounds what comes twice after a kill; with batchBytes, it bounds this process's
	// memory.
	batchRows  = 2000
	batchBytes = 16 << 20
	// publishFor bounds how long a batch is published, also after an interrupt. What is published by
	// then is removed.
	publishFor = 10 * time.Minute
	// atOnce is how many messages are published between two looks at the time.
	atOnce = 256
)

// pending counts what a job selects, by node and exchange. Unreached nodes make an error that is
// node.ErrUnreached, with the others' tables.
func (j Job) pending(ctx context.Context) ([]node.Table, error) {
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

// Run evacuates. The account is valid with an error, too. Nodes that cannot be reached are left
// out, and named by the error.
func (j Job) Run(ctx context.Context) (Account, error) {
	a := Account{Left: map[string]int{}}
	conn, err := broker.Dial(ctx, j.Broker)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	const allExchanges, noPatience = "", 0 // a second tool is refused at once
	lock, err := record.Take(ctx, conn, j.Prefix, allExchanges, noPatience)
	if err != nil {
		return a, err
	}
	defer lock.Release()
	tables, unreached := j.pending(ctx)
	if unreached != nil && !errors.Is(unreached, node.ErrUnreached) {
		return a, unreached
	}
	a.Before = sum(tables)
	for _, t := range tables {
		if len(t.Exchanges) == 0 {
			continue
		}
		if err := j.node(ctx, t.Node, lock, &a); err != nil {
			return a, errors.Join(err, unreached)
		}
	}
	// What was moved does not say what has stayed: the plugin has delivered some meanwhile.
	tables, err = j.pending(ctx)
	if errors.Is(err, node.ErrUnreached) {
		err = nil // those that are named already
	}
	a.After = sum(tables)
	return a, errors.Join(err, unreached)
}

// node evacuates a node. It stops between two batches.
func (j Job) node(ctx context.Context, name string, lock *record.Lock, a *Account) error {
	for q := (node.Query{
		Vhost: j.Vhost, Exchanges: j.Exchanges, Later: j.Leave, MaxRows: batchRows, MaxBytes: batchBytes,
	}); ; {
		if j.Progress != nil {
			j.Progress(*a)
		}
		batch, err := j.Nodes.Rows(ctx, name, q)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil && lock.Lost() {
			err = errors.New("evacuate: the connection was lost (run the command again: nothing is lost)")
		}
		if err == nil {
			err = j.move(ctx, name, batch, a)
		}
		if err != nil || batch.Last {
			return err
		}
		q.After = batch.Next
	}
}

// move publishes the rows of a batch and removes them from the table, even after an interrupt.
func (j Job) move(ctx context.Context, name string, batch node.Batch, a *Account) error {
	ctx = context.WithoutCancel(ctx)
	publishing, cancel := context.WithTimeout(ctx, publishFor)
	defer cancel()
	var published []node.Row
	var failed error
	for rows := range slices.Chunk(batch.Rows, atOnce) {
		var messages []delayer.Message
		var sent []node.Row
		for _, row := range rows {
			remaining := batch.Clock.Until(row.Due)
			if remaining < max(j.Leave, time.Millisecond) {
				continue // the plugin delivers it
			}
			m, err := asPublished(row)
			if err != nil {
				a.leave(row, err.Error())
				continue
			}
			m.Delay = remaining
			messages, sent = append(messages, m), append(sent, row)
		}
		for i, err := range j.Delayer.PublishBatch(publishing, messages) {
			switch {
			case err == nil:
				published = append(published, sent[i])
			case refused(err):
				a.leave(sent[i], reason(err))
			case failed == nil:
				failed = err
			}
		}
		if failed != nil {
			break
		}
	}
	removed, err := j.Nodes.Remove(ctx, name, j.Vhost, published)
	if err != nil {
		return errors.Join(failed, fmt.Errorf("%w (run the command again; %d messages were published and are in the plugin still, so they come twice)", err, len(published)))
	}
	a.Moved += len(published)
	a.Twice += len(published) - removed // the plugin has delivered these meanwhile
	return failed
}

func (a *Account) leave(row node.Row, why string) {
	a.Left[fmt.Sprintf("exchange %q: %s", row.Exchange, why)]++
}

// refused reports whether an error is about one message alone, which was not published. A policy or
// a queue that conflicts concerns all messages, and ends the run.
func refused(err error) bool {
	for _, final := range []error{delayer.ErrInvalid, delayer.ErrOutOfRange, delayer.ErrUnroutable, delayer.ErrAccess} {
		if errors.Is(err, final) && delayer.SafeToRetry(err) {
			return true
		}
	}
	return false
}

// reason is an error without its place, which stands beside it.
func reason(err error) string {
	var known *delayer.Error
	if !errors.As(err, &known) {
		return err.Error()
	}
	bare := *known
	bare.Backend, bare.Object = "", ""
	return strings.TrimPrefix(bare.Error(), "delayer: ")
}

// asPublished returns the message of a row as it was published, with RowHeader and without x-delay.
// A row has the keys of CC, which its headers have too, and those of BCC, which the broker has taken
// away.
func asPublished(row node.Row) (m delayer.Message, err error) {
	if row.Unreadable != "" {
		return m, fmt.Errorf("the node cannot read it: %s", row.Unreadable)
	}
	if len(row.Keys) == 0 {
		return m, errors.New("it has no routing key")
	}
	m.Exchange, m.Key = row.Exchange, row.Keys[0]
	if m.Publishing, err = node.DecodeProperties(row.Properties); err != nil {
		return m, err
	}
	m.Publishing.Body = row.Body
	headers := m.Publishing.Headers
	if headers == nil {
		headers = amqp091.Table{}
		m.Publishing.Headers = headers
	}
	delete(headers, "x-delay")
	cc, _ := headers["CC"].([]any)
	if bcc := row.Keys[min(len(row.Keys), 1+len(cc)):]; len(bcc) > 0 {
		list := make([]any, len(bcc))
		for i, key := range bcc {
			list[i] = key
		}
		headers["BCC"] = list
	}
	headers[RowHeader] = row.ID
	return m, nil
}
