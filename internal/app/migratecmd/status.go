package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// statusCmd is `delayer migrate status`.
type statusCmd struct {
	commonFlags
	cli.Format
}

// Help says what takes time.
func (c *statusCmd) Help() string {
	return "With --rabbitmqctl it counts what waits in the plugin: the broker reads the plugin's " +
		"whole table for that."
}

// An exchange is one that is migrated, or could be.
type exchange struct {
	Exchange string      `json:"exchange"`
	Mode     record.Mode `json:"mode,omitempty"`         // "" before the switch
	Delayed  bool        `json:"delayed"`                // it is the plugin's
	Target   string      `json:"target,omitempty"`       // where delayer serve passes messages on
	Pending  *int        `json:"pending,omitempty"`      // in the plugin, on all nodes that were asked
	Latest   *time.Time  `json:"last_due,omitempty"`     // of those
	Serve    *int        `json:"serve_queued,omitempty"` // messages in the queues of delayer serve
	Next     string      `json:"next"`
}

// Run prints a line for each exchange that is migrated, or could be.
func (c *statusCmd) Run(ctx context.Context, s cli.Streams) error {
	m, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer m.control.Close()
	all, err := m.status(ctx)
	if err != nil {
		return err
	}
	if m.node != nil {
		if err := m.addPending(ctx, s, all); err != nil {
			return err
		}
	}
	switch {
	case c.JSON():
		return cli.WriteJSON(s.Out, map[string]any{"exchanges": all})
	case len(all) == 0:
		_, err := fmt.Fprintln(s.Out, "no exchange of the plugin, and no migration of this prefix")
		return err
	}
	t, now := cli.NewTable("EXCHANGE", "MODE", "IN PLUGIN", "LAST DUE", "IN SERVE", "NEXT"), time.Now()
	number := func(n *int) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(*n)
	}
	for _, x := range all {
		due := "-"
		if x.Latest != nil {
			due = cli.Ago(*x.Latest, now)
		}
		t.Add(cli.Shown(x.Exchange), cli.OrDash(string(x.Mode)), number(x.Pending), due, number(x.Serve), x.Next)
	}
	return t.Write(s.Out)
}

// status lists the exchanges that have a record, and those of the plugin without one.
func (m *session) status(ctx context.Context) ([]*exchange, error) {
	known, err := m.api.Exchanges(ctx)
	if err != nil {
		return nil, err
	}
	all, byName := []*exchange{}, map[string]inventory.Exchange{}
	for _, x := range known {
		byName[x.Name] = x
	}
	for _, x := range known {
		r, is, err := record.Of(m.settings.Prefix, x)
		if err != nil {
			return nil, err
		}
		if !is {
			continue
		}
		name := string(r.Exchange)
		of, there := byName[name]
		delete(byName, name)
		e := &exchange{Exchange: name, Mode: r.Mode, Delayed: of.Delayed(), Target: string(r.Target), Next: "wait or evacuate, then retire"}
		switch {
		case !there:
			e.Next = "it does not exist any more: declare it, or let it be"
		case e.Delayed:
			e.Next = "switch --mode " + string(r.Mode) + " again, or rollback: it was interrupted"
		}
		if r.Mode == record.Serving {
			if err := m.addServe(ctx, e); err != nil {
				return nil, err
			}
		}
		all = append(all, e)
	}
	for _, x := range known {
		if _, ofNone := byName[x.Name]; ofNone && x.Delayed() {
			all = append(all, &exchange{Exchange: x.Name, Delayed: true, Next: "switch"})
		}
	}
	return all, nil
}

// addServe counts what delayer serve has not passed on, and says whether it runs.
func (m *session) addServe(ctx context.Context, e *exchange) error {
	names, messages, consumers := entry.NamesOf(m.settings.Prefix, e.Exchange), 0, 0
	for _, name := range []string{names.Queue, names.Back, names.Parked} {
		q, err := m.control.Queue(ctx, name)
		if err != nil {
			return err
		}
		messages += q.Messages
		consumers += q.Consumers
	}
	e.Serve = &messages
	if consumers == 0 && !e.Delayed {
		e.Next = "delayer serve: it is not running for this exchange. Then " + e.Next
	}
	return nil
}

// addPending counts what waits in the plugin, and says which nodes did not answer.
func (m *session) addPending(ctx context.Context, s cli.Streams, all []*exchange) error {
	tables, err := m.node.Pending(ctx)
	if errors.Is(err, node.ErrUnreached) {
		fmt.Fprintln(s.Err, "the counts are too low:", err)
	} else if err != nil {
		return err
	}
	waits := waiting(tables, m.vhost)
	for _, e := range all {
		w := waits[e.Exchange]
		e.Pending = &w.rows
		if w.rows > 0 {
			e.Latest = &w.latest
		}
		if w.rows == 0 && err == nil && !e.Delayed && e.Next == "wait or evacuate, then retire" {
			e.Next = "retire"
		}
	}
	return nil
}
