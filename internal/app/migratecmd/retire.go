package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
)

// retireCmd is `delayer migrate retire`.
type retireCmd struct {
	exchangeFlags
	Watch time.Duration `default:"15s" help:"How long nothing may be published to an exchange of the plugin before it is deleted (default ${default})."`
	Force string        `placeholder:"EXCHANGE" help:"The exchange's name again: retire it without proof that the plugin holds nothing for it. What it holds is lost with the plugin."`
	Yes   bool          `help:"Delete an exchange that is still the plugin's without asking."`
}

func (c *retireCmd) Validate() error {
	if c.Force != "" && c.Force != c.Exchange {
		return fmt.Errorf("--force: %q is not the exchange's name, %q", c.Force, c.Exchange)
	}
	return c.exchangeFlags.Validate()
}

// deleteWarning is what the end of an exchange that was not switched asks for.
const deleteWarning = `Exchange %s was not switched: it is still the plugin's. This deletes it, with %s.
After it publishers get 404 NOT_FOUND, and no message gets to its queues. No command undoes that.
To keep the exchange, run delayer migrate switch first.
`

// Run ends the migration of an exchange: it proves that the plugin is not needed for it, and
// removes what is left.
func (c *retireCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.step(ctx, s, func(m *session) error {
		err := m.locked(ctx, c.Exchange, func(swapper *swap.Swapper, journal *record.Journal) error {
			return c.retire(ctx, s, m, swapper, journal)
		})
		if err != nil {
			return err
		}
		return c.last(ctx, s, m)
	})
}

func (c *retireCmd) retire(ctx context.Context, s cli.Streams, m *session, swapper *swap.Swapper, journal *record.Journal) error {
	r, found := journal.Record()
	switch {
	case r.Step == record.Switching || r.Step == record.Restoring:
		return fmt.Errorf("exchange %q is half changed: %s was interrupted (run it again first)", c.Exchange, map[record.Step]string{
			record.Switching: "delayer migrate switch --mode " + string(r.Mode), record.Restoring: "delayer migrate rollback",
		}[r.Step])
	}
	if err := c.nothingPending(ctx, m); err != nil {
		return err
	}
	if r.Step == record.Switched {
		if err := swapper.Settle(ctx); err != nil {
			return err
		}
	} else {
		if r.Target != "" {
			if err := m.removeServe(ctx, s, swapper, c.Force != ""); err != nil {
				return err
			}
		}
		done, err := c.before(ctx, s, m, found)
		if err == nil && !done {
			err = c.deleteOld(ctx, s, m)
		}
		if err != nil || done && !found {
			return err
		}
	}
	gone := ""
	if found {
		if err := journal.Delete(); err != nil {
			return err
		}
		gone = ", and its record is deleted"
	}
	end := ""
	if r.Step == record.Switched && r.Target != "" {
		end = "delayer serve goes on passing on what is published to it\n"
	}
	_, err := fmt.Fprintf(s.Out, "exchange %s is retired: the plugin is not needed for it%s\n%s", cli.Shown(c.Exchange), gone, end)
	return err
}

// nothingPending proves that the plugin's tables hold nothing for the exchange, on any node.
func (c *retireCmd) nothingPending(ctx context.Context, m *session) error {
	if c.Force != "" {
		return nil
	}
	if m.control == nil {
		return errors.New("whether the plugin still holds messages cannot be seen without --rabbitmqctl (give it, or --force with the exchange's name: what is there is lost)")
	}
	tables, err := m.control.Pending(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if n := pendingOf([]node.Table{t}, m.vhost, c.Exchange); n > 0 {
			return fmt.Errorf("the plugin holds %s for exchange %q on node %s (delayer migrate drain waits for them, evacuate takes them out)", cli.Count(n, "message"), c.Exchange, t.Node)
		}
	}
	return nil
}

// before reports whether a run that was killed has deleted the exchange, or without a record all
// that is left.
func (c *retireCmd) before(ctx context.Context, s cli.Streams, m *session, found bool) (bool, error) {
	if found {
		there, err := m.wire().Exists(ctx, c.Exchange)
		return !there, err
	}
	d, err := m.api.Definition(ctx, c.Exchange)
	if err != nil || d.Delayed() {
		return false, err
	}
	_, err = fmt.Fprintf(s.Out, "exchange %s needs no plugin: its type is %s, and it has no record of a migration\n", cli.Shown(c.Exchange), d.Type)
	return true, err
}

// deleteOld deletes an exchange that is still the plugin's, once its user agrees and nothing is
// published to it.
func (c *retireCmd) deleteOld(ctx context.Context, s cli.Streams, m *session) error {
	d, err := m.api.Definition(ctx, c.Exchange)
	if err != nil {
		return err
	}
	if !d.Delayed() {
		return fmt.Errorf("exchange %q was not switched by delayer migrate, and is not the plugin's: its type is %s", c.Exchange, d.Type)
	}
	if !c.Yes {
		fmt.Fprintf(s.Out, deleteWarning, cli.Shown(c.Exchange), cli.Count(len(d.Out)+len(d.In), "binding"))
		if err := cli.Agree(ctx, s, "Delete it?", "yes", "--yes"); err != nil {
			return err
		}
	}
	if c.Force == "" {
		fmt.Fprintf(s.Err, "looking for %v whether something is published to exchange %s\n", c.Watch, cli.Shown(c.Exchange))
		if err := c.unused(ctx, m); err != nil {
			return err
		}
		// Again: what was published before the watch began may wait by now.
		if err := c.nothingPending(ctx, m); err != nil {
			return err
		}
	}
	if d, err = m.api.Definition(ctx, c.Exchange); err != nil { // as it is deleted
		return err
	}
	if err := m.wire().Perform(ctx, []swap.Op{{Verb: swap.Delete, Exchange: d.Exchange}}); err != nil {
		return err
	}
	return writeDeleted(s.Out, d)
}

// writeDeleted says all that is needed to declare an exchange again.
func writeDeleted(out io.Writer, d inventory.Definition) error {
	bindings := slices.Concat(d.Out, d.In)
	end := "\n"
	if len(bindings) > 0 {
		end = ":\n"
	}
	_, err := fmt.Fprintf(out, "exchange %s of type %s, routing as %s, was deleted, with %s%s",
		cli.Shown(d.Name), d.Type, d.DelayedType(), cli.Count(len(bindings), "binding"), end)
	for _, b := range bindings {
		fmt.Fprintf(out, "  %v\n", b)
	}
	return err
}

func (c *retireCmd) unused(ctx context.Context, m *session) error {
	const looks = 3
	first, err := m.api.Published(ctx, c.Exchange)
	for i := 0; i < looks && err == nil; i++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(c.Watch / looks):
		}
		var now int64
		if now, err = m.api.Published(ctx, c.Exchange); now != first && err == nil {
			return fmt.Errorf("exchange %q got %s meanwhile (let its publishers use the library, or switch it)", c.Exchange, cli.Count(int(now-first), "message"))
		}
	}
	return err
}

func (c *retireCmd) last(ctx context.Context, s cli.Streams, m *session) error {
	left, err := m.api.Delayed(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		names := ""
		for _, x := range left {
			names += " " + cli.Shown(x.Name)
		}
		fmt.Fprintf(s.Out, "the plugin must stay: vhost %s has %s of it:%s\n", m.vhost, cli.Count(len(left), "more exchange"), names)
		return nil
	}
	rows := "" // that the tables hold for any exchange of any vhost
	if m.control != nil {
		tables, err := m.control.Pending(ctx)
		if err != nil {
			rows, tables = " "+err.Error(), nil
		}
		for _, t := range tables {
			for _, x := range t.Exchanges {
				rows += fmt.Sprintf(" %d for exchange %s in vhost %s on node %s;", x.Rows, cli.Shown(x.Exchange), cli.Shown(x.Vhost), t.Node)
			}
		}
	}
	if rows != "" {
		fmt.Fprintf(s.Out, "the plugin must stay: its tables are not empty:%s\n", rows)
		return nil
	}
	_, err = fmt.Fprintf(s.Out, "vhost %s has no exchange of the plugin any more. When no vhost has one, on each node:\n  rabbitmq-plugins disable rabbitmq_delayed_message_exchange\n", m.vhost)
	return err
}
