package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/migration/node"
	"github.com/delayer-go/delayer/internal/migration/record"
	"github.com/delayer-go/delayer/internal/migration/swap"
)

// migrateStatusCmd is `delayer migrate status`.
type migrateStatusCmd struct {
	migrateFlags
	Pending bool `help:"Count what waits in the plugin; needs --rabbitmqctl. The broker reads the plugin's whole table for it."`
	outputFlag
}

// Validate makes a value that cannot be right a usage error.
func (c *migrateStatusCmd) Validate() error {
	if c.Pending && c.Rabbitmqctl == "" {
		return errors.New("--pending needs --rabbitmqctl: the management API counts one node only")
	}
	return c.migrateFlags.Validate()
}

// exchangeStatus is how far the migration of one exchange is.
type exchangeStatus struct {
	Exchange string      `json:"exchange"`
	Step     record.Step `json:"step"` // "" for one of the plugin without a record
	Mode     record.Mode `json:"mode,omitempty"`
	Since    *time.Time  `json:"since,omitempty"`
	Busy     bool        `json:"busy,omitempty"`          // a tool works on it
	Pending  *int        `json:"pending,omitempty"`       // in the plugin, on all nodes that were asked
	Bridge   *int        `json:"bridge_queued,omitempty"` // messages in the queues of a bridge
	Next     string      `json:"next"`
}

// Run prints a line for each exchange that is migrated, or could be.
func (c *migrateStatusCmd) Run(ctx context.Context, s streams) error {
	if err := c.run(ctx, s); err != nil {
		return cli.InterruptedOr(ctx, failure("migrate status", err))
	}
	return nil
}

func (c *migrateStatusCmd) run(ctx context.Context, s streams) error {
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
	if c.json() {
		return writeJSON(s.out, map[string]any{"exchanges": all})
	}
	return writeStatus(s.out, all)
}

// status lists the records, and the exchanges of the plugin without one.
func (m *migrationSession) status(ctx context.Context) ([]*exchangeStatus, error) {
	queues, err := m.api.QueuesNamed(ctx, m.settings.Prefix+".migration.")
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
	all := []*exchangeStatus{}
	known := map[string]bool{}
	for _, e := range entries {
		st, err := m.statusOf(ctx, e)
		if err != nil {
			return nil, err
		}
		known[e.Queue] = true
		all = append(all, st)
	}
	for _, x := range delayed {
		queue := record.Queue(m.settings.Prefix, x.Name)
		if i := slices.IndexFunc(entries, func(e record.Entry) bool { return e.Held && e.Queue == queue }); i >= 0 {
			all[i].Exchange = x.Name
		}
		if !known[queue] {
			all = append(all, &exchangeStatus{Exchange: x.Name, Next: "prepare"})
		}
	}
	return all, nil
}

func (m *migrationSession) statusOf(ctx context.Context, e record.Entry) (*exchangeStatus, error) {
	if e.Held {
		return &exchangeStatus{Exchange: "queue " + e.Queue, Busy: true, Next: "wait: a tool works on it"}, nil
	}
	r := e.Record
	since := r.Since[r.Step]
	st := &exchangeStatus{Exchange: r.Former.Name, Step: r.Step, Mode: r.Mode, Since: &since, Next: nextStep(r)}
	if !r.Bridged {
		return st, nil
	}
	s := &swap.Swapper{Prefix: m.settings.Prefix, Exchange: r.Former.Name}
	depths, err := s.BridgeDepths(ctx, m.wire())
	total := 0
	for _, d := range depths {
		total += d.Messages
	}
	st.Bridge = &total
	return st, err
}

// nextStep is what a user does next.
func nextStep(r record.Record) string {
	switch r.Step {
	case record.Prepared:
		return "switch"
	case record.Switching:
		return "switch --mode " + string(r.Mode) + " again, or rollback: it was interrupted"
	case record.Restoring:
		return "rollback again: it was interrupted"
	case record.Restored:
		return "rollback again, once the bridge's queue is empty: it removes the rest"
	}
	if r.Mode == record.Bridging {
		return "bridge; when publishers use the library: switch --mode in-place"
	}
	return "drain or evacuate, then retire"
}

// addPending counts what waits in the plugin, and says which nodes did not answer.
func (m *migrationSession) addPending(ctx context.Context, s streams, all []*exchangeStatus) error {
	tables, err := m.control.Pending(ctx)
	if errors.Is(err, node.ErrUnreached) {
		fmt.Fprintln(s.err, "the counts are too low:", err)
	} else if err != nil {
		return err
	}
	for _, st := range all {
		rows := pendingOf(tables, m.vhost, st.Exchange)
		st.Pending = &rows
		if rows == 0 && err == nil && st.Step == record.Switched && st.Mode == record.InPlace {
			st.Next = "retire"
		}
	}
	return nil
}

// pendingOf is how many messages wait in the plugin for an exchange.
func pendingOf(tables []node.Table, vhost, exchange string) int {
	rows := 0
	for _, t := range tables {
		for _, x := range t.Exchanges {
			if x.Vhost == vhost && x.Exchange == exchange {
				rows += x.Rows
			}
		}
	}
	return rows
}

func writeStatus(out io.Writer, all []*exchangeStatus) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no exchange of the plugin, and no migration of this prefix")
		return err
	}
	t, now := newTable("EXCHANGE", "STEP", "MODE", "SINCE", "IN PLUGIN", "IN BRIDGE", "NEXT"), time.Now()
	number := func(n *int) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(*n)
	}
	for _, st := range all {
		since := "-"
		if st.Since != nil {
			since = ago(*st.Since, now)
		}
		t.add(shown(st.Exchange), orDash(string(st.Step)), orDash(string(st.Mode)), since, number(st.Pending), number(st.Bridge), st.Next)
	}
	return t.write(out)
}
