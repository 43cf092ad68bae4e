package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
)

// statusCmd is `delayer migrate status`.
type statusCmd struct {
	commonFlags
	Pending bool `help:"Count what waits in the plugin; needs --rabbitmqctl. The broker reads the plugin's whole table for it."`
	cli.Format
}

func (c *statusCmd) Validate() error {
	if c.Pending && c.Rabbitmqctl == "" {
		return errors.New("--pending needs --rabbitmqctl: the management API counts one node only")
	}
	return c.commonFlags.Validate()
}

// ExchangeStatus is how far the migration of one exchange is.
type ExchangeStatus struct {
	Exchange string      `json:"exchange"`
	Step     record.Step `json:"step"` // "" for one of the plugin without a record
	Mode     record.Mode `json:"mode,omitempty"`
	Since    *time.Time  `json:"since,omitempty"`
	Busy     bool        `json:"busy,omitempty"`         // a tool works on it
	Pending  *int        `json:"pending,omitempty"`      // in the plugin, on all nodes that were asked
	Serve    *int        `json:"serve_queued,omitempty"` // messages in the queues of delayer serve
	Target   string      `json:"target,omitempty"`       // the exchange where delayer serve passes messages on
	Next     string      `json:"next"`
}

// Run prints a line for each exchange that is migrated, or could be.
func (c *statusCmd) Run(ctx context.Context, s cli.Streams) error {
	m, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer m.conn.Close()
	all, err := m.status(ctx)
	if err != nil {
		return err
	}
	if c.Pending {
		if err := m.addPending(ctx, s, all); err != nil {
			return err
		}
	}
	if c.JSON() {
		return cli.WriteJSON(s.Out, map[string]any{"exchanges": all})
	}
	return writeStatus(s.Out, all)
}

// status lists the records, and the exchanges of the plugin without one.
func (m *session) status(ctx context.Context) ([]*ExchangeStatus, error) {
	queues, err := m.api.QueuesNamed(ctx, record.Names(m.settings.Prefix))
	if err != nil {
		return nil, err
	}
	entries, err := record.List(ctx, m.conn, m.settings.Prefix, queues)
	if err != nil {
		return nil, err
	}
	delayed, err := m.api.Delayed(ctx)
	if err != nil {
		return nil, err
	}
	all := []*ExchangeStatus{}
	for _, e := range entries {
		st, err := m.statusOf(ctx, e)
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	for _, x := range delayed {
		queue := record.Queue(m.settings.Prefix, x.Name)
		switch i := slices.IndexFunc(entries, func(e record.Entry) bool { return e.Queue == queue }); {
		case i < 0:
			all = append(all, &ExchangeStatus{Exchange: x.Name, Next: "prepare"})
		case entries[i].Held:
			all[i].Exchange = x.Name
		}
	}
	return all, nil
}

func (m *session) statusOf(ctx context.Context, e record.Entry) (*ExchangeStatus, error) {
	if e.Held {
		return &ExchangeStatus{Exchange: "queue " + e.Queue, Busy: true, Next: "wait: a tool works on it"}, nil
	}
	r := e.Record
	since := r.Since[r.Step]
	st := &ExchangeStatus{Exchange: r.Former.Name, Step: r.Step, Mode: r.Mode, Since: &since, Next: nextStep(r)}
	if st.Target = r.Target; r.Target == "" {
		return st, nil
	}
	s := &swap.Swapper{Prefix: m.settings.Prefix, Exchange: r.Former.Name}
	depths, err := s.ServeDepths(ctx, m.wire())
	total, consumers := 0, 0
	for _, d := range depths {
		total += d.Messages
		consumers += d.Consumers
	}
	st.Serve = &total
	if consumers == 0 && r.Step == record.Switched {
		st.Next = "delayer serve: it is not running for this exchange. Then " + st.Next
	}
	return st, err
}

// waits is what to do while the plugin still holds messages.
const waits = "drain or evacuate, then retire"

func nextStep(r record.Record) string {
	switch r.Step {
	case record.Prepared:
		return "switch"
	case record.Switching:
		return "switch --mode " + string(r.Mode) + " again, or rollback: it was interrupted"
	case record.Restoring:
		return "rollback again: it was interrupted"
	case record.Restored:
		return "rollback again, once serve's queues are empty and it does not serve the exchange: it removes them"
	}
	return waits
}

// addPending counts what waits in the plugin, and says which nodes did not answer.
func (m *session) addPending(ctx context.Context, s cli.Streams, all []*ExchangeStatus) error {
	tables, err := m.control.Pending(ctx)
	if errors.Is(err, node.ErrUnreached) {
		fmt.Fprintln(s.Err, "the counts are too low:", err)
	} else if err != nil {
		return err
	}
	for _, st := range all {
		rows := pendingOf(tables, m.vhost, st.Exchange)
		st.Pending = &rows
		if rows == 0 && err == nil && st.Step == record.Switched {
			st.Next = strings.Replace(st.Next, waits, "retire", 1)
		}
	}
	return nil
}

func writeStatus(out io.Writer, all []*ExchangeStatus) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no exchange of the plugin, and no migration of this prefix")
		return err
	}
	t, now := cli.NewTable("EXCHANGE", "STEP", "MODE", "SINCE", "IN PLUGIN", "IN SERVE", "NEXT"), time.Now()
	number := func(n *int) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(*n)
	}
	for _, st := range all {
		since := "-"
		if st.Since != nil {
			since = cli.Ago(*st.Since, now)
		}
		t.Add(cli.Shown(st.Exchange), cli.OrDash(string(st.Step)), cli.OrDash(string(st.Mode)), since, number(st.Pending), number(st.Serve), st.Next)
	}
	return t.Write(out)
}
