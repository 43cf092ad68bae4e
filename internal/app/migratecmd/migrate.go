// Package migratecmd leaves the x-delayed-message plugin, step by step: delayer migrate.
package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// Command is `delayer migrate`.
type Command struct {
	Assess   assessCmd   `cmd:"" help:"1. Say how far each exchange is, what is to be decided, and what stands in the way. It changes nothing."`
	Switch   switchCmd   `cmd:"" help:"2. Let the exchange change hands, in place or to delayer serve. What waits in the plugin is still delivered."`
	Evacuate evacuateCmd `cmd:"" help:"3. Move what waits in the plugin to the new backend, now. It may be stopped, or killed, and run again. Or wait."`
	Retire   retireCmd   `cmd:"" help:"4. Prove that the plugin is not needed for an exchange any more, and delete the record of the migration."`
	Rollback rollbackCmd `cmd:"" help:"Until step 4: make the exchange the plugin's again."`
}

type commonFlags struct {
	flags.Managed `set:"wait=How long to wait for a connection, for another tool that works on the exchange, and for each answer that needs no scan of the plugin's table"`
	Rabbitmqctl   string `required:"" placeholder:"COMMAND" help:"How to run rabbitmqctl on a node, which alone can read and change what is the plugin's, such as 'kubectl exec rabbit-0 -- rabbitmqctl'. It is run without a shell."`
}

// A session has what the steps need of a broker.
type session struct {
	cfg      backend.Config
	settings engine.Settings
	vhost    string
	api      *inventory.API
	node     *node.Control
}

// open reads the configuration, and asks nothing.
func (f *commonFlags) open() (m *session, err error) {
	m = &session{}
	if m.cfg, err = f.Load(); err != nil {
		return nil, err
	}
	m.cfg.Logger = slog.New(slog.DiscardHandler) // the errors say it all
	if m.settings, err = engine.Resolve(m.cfg.Options, ""); err != nil {
		return nil, err
	}
	if m.vhost, err = broker.Vhost(m.cfg.URL); err == nil {
		m.node, err = node.New(f.Rabbitmqctl)
	}
	return m, err
}

// reach opens a session whose management API answers.
func (f *commonFlags) reach(ctx context.Context) (*session, error) {
	m, err := f.open()
	if err != nil {
		return nil, err
	}
	if m.cfg.Management == "" {
		return nil, errors.New("no management API: give --management, or management in the configuration (http://user:password@host:15672)")
	}
	client, vhost, err := m.settings.API()
	if err != nil {
		return nil, err
	}
	m.api = inventory.New(client, vhost)
	m.api.Within = f.Timeout
	return m, m.api.Reachable(ctx)
}

type exchangeFlags struct {
	commonFlags
	Exchange string `required:"" placeholder:"NAME" help:"The exchange that is migrated."`
}

func (f *exchangeFlags) Validate() error {
	if f.Exchange == "" {
		return errors.New("--exchange: the name is empty; the default exchange delays nothing")
	}
	return f.commonFlags.Validate()
}

// locked runs a step while no other tool works on the exchange.
func (f *exchangeFlags) locked(ctx context.Context, run func(*session, *swap.Swapper) error) error {
	opening, cancel := f.Within(ctx)
	defer cancel()
	m, err := f.reach(opening)
	if err != nil {
		return err
	}
	conn, err := broker.Dial(opening, m.settings.BrokerOptions("migrate"))
	if err != nil {
		return err
	}
	control := broker.NewControl(conn)
	defer control.Close()
	lock, err := record.Take(ctx, conn, m.settings.Prefix, f.Exchange, f.Timeout)
	if err != nil {
		return err
	}
	defer lock.Release()
	return run(m, &swap.Swapper{
		Prefix: m.settings.Prefix, Exchange: f.Exchange, Vhost: m.vhost, API: m.api, Control: control, Node: m.node, Lock: lock,
	})
}

type retireCmd struct{ exchangeFlags }

// Run ends the migration of an exchange: it proves that the plugin is not needed for it, and
// deletes the record.
func (c *retireCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.locked(ctx, func(m *session, swapper *swap.Swapper) error {
		x, err := m.api.Exchange(ctx, c.Exchange)
		if err != nil {
			return err
		}
		if x.Delayed() {
			return fmt.Errorf("exchange %q is still the plugin's (run delayer migrate switch first; or delete it, if nothing uses it)", c.Exchange)
		}
		r, found, err := record.Read(ctx, m.api, m.settings.Prefix, c.Exchange)
		if err != nil {
			return err
		}
		tables, err := m.node.Pending(ctx)
		if err != nil {
			return err
		}
		if w := waiting(tables, m.vhost)[c.Exchange]; w.rows > 0 {
			return fmt.Errorf("the plugin holds %s for exchange %q, the last due %s (wait for them, or take them out with delayer migrate evacuate)",
				cli.Count(w.rows, "message"), c.Exchange, cli.Ago(w.latest, time.Now()))
		}
		if !found { // a run before may have been killed at its end
			fmt.Fprintf(s.Out, "exchange %s has no record: it was never switched, or is retired already\n", cli.Shown(c.Exchange))
			return m.last(ctx, s, tables)
		}
		if err := swapper.Lock.Delete(record.Name(m.settings.Prefix, c.Exchange)); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "exchange %s is retired: the plugin is not needed for it, and its record is deleted\n", cli.Shown(c.Exchange))
		if r.Mode == record.Serving {
			fmt.Fprintln(s.Out, "delayer serve goes on passing on what is published to it")
		}
		return m.last(ctx, s, tables)
	})
}

// last says whether the plugin is needed for anything else.
func (m *session) last(ctx context.Context, s cli.Streams, tables []node.Table) error {
	all, err := m.api.Exchanges(ctx)
	if err != nil {
		return err
	}
	rows := 0 // of all vhosts
	for _, t := range tables {
		for _, w := range t.Exchanges {
			rows += w.Rows
		}
	}
	if rows > 0 || slices.ContainsFunc(all, inventory.Exchange.Delayed) {
		_, err = fmt.Fprintf(s.Out, "the plugin must stay: it holds %s, and vhost %s may have exchanges of it: delayer migrate assess lists them for each vhost\n", cli.Count(rows, "message"), cli.Shown(m.vhost))
		return err
	}
	_, err = fmt.Fprintf(s.Out, "vhost %s has no exchange of the plugin any more. When no vhost has one, on each node:\n  rabbitmq-plugins disable rabbitmq_delayed_message_exchange\n",
		cli.Shown(m.vhost))
	return err
}

type switchCmd struct {
	exchangeFlags
	Mode string `required:"" enum:"in-place,serve" placeholder:"MODE" help:"in-place: the exchange becomes an ordinary one; its publishers use the library already. serve: it becomes one of delayer serve; its publishers stay as they are."`
	Yes  bool   `help:"Switch without asking."`
}

const inPlaceWarning = `After this, RabbitMQ does not delay what is published to exchange %s with an x-delay header:
it arrives at once. All its publishers must use package migrate or the library by now. Applications
that declare the exchange as x-delayed-message when they start get a channel error from now on.
`

const serveWarning = `After this, messages to exchange %s wait in a queue until delayer serve runs for it.
Applications that declare the exchange as x-delayed-message when they start get a channel error from
now on. A queue that an application binds to it gets messages at once and twice, until this command
is run again, which moves that. Before RabbitMQ 3.13, what waits in the plugin now waits a second
time: evacuate first, or switch in place.
`

func (c *switchCmd) Run(ctx context.Context, s cli.Streams) error {
	mode, warning := record.Mode(c.Mode), inPlaceWarning
	if mode == record.Serving {
		warning = serveWarning
	}
	if !c.Yes {
		if err := c.possible(ctx, mode); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, warning, cli.Shown(c.Exchange))
		if err := cli.Agree(ctx, s, "Switch it?", "yes", "--yes"); err != nil {
			return err
		}
	}
	return c.locked(ctx, func(_ *session, swapper *swap.Swapper) error {
		result, err := swapper.Switch(ctx, mode)
		if err != nil {
			return err
		}
		if mode == record.InPlace {
			writeResult(s.Out, "an ordinary exchange", result)
			fmt.Fprintln(s.Out, "next: wait, or delayer migrate evacuate, and then retire; rollback undoes it until then")
			return nil
		}
		writeResult(s.Out, "an exchange of delayer serve", result)
		if policy := result.Now.Policy; policy != "" {
			fmt.Fprintf(s.Out, "policy %s applies to the exchange: if it sets an alternate exchange, let one do so for exchange %s too\n",
				cli.Shown(policy), cli.Shown(string(result.Record.Target)))
		}
		spec := result.Record.Spec()
		fmt.Fprintf(s.Out, "next: delayer serve, with this in its configuration; then wait, or evacuate, and retire; rollback undoes it until then\n"+
			"serve:\n  exchanges:\n    - {name: %q, type: %s, to: %q}\n",
			spec.Name, spec.Type, spec.To)
		return nil
	})
}

// possible returns why an exchange cannot be switched, as far as that can be known before.
func (c *switchCmd) possible(ctx context.Context, mode record.Mode) error {
	asking, cancel := c.Within(ctx)
	defer cancel()
	m, err := c.reach(asking)
	if err != nil {
		return err
	}
	swapper := &swap.Swapper{Prefix: m.settings.Prefix, Exchange: c.Exchange, API: m.api}
	_, _, err = swapper.Begin(ctx, mode)
	return err
}

func writeResult(out io.Writer, what string, r swap.Result) {
	bindings := cli.Count(len(r.Now.Out)+len(r.Now.In), "binding")
	if !r.Changed {
		fmt.Fprintf(out, "exchange %s was %s already, with %s\n", cli.Shown(r.Now.Name), what, bindings)
		return
	}
	fmt.Fprintf(out, "exchange %s is %s now, with %s\nit was there all the time: nothing was lost, and publishers saw no error\n", cli.Shown(r.Now.Name), what, bindings)
}

type rollbackCmd struct{ exchangeFlags }

func (c *rollbackCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.locked(ctx, func(m *session, swapper *swap.Swapper) error {
		result, err := swapper.Rollback(ctx)
		if err != nil {
			return err
		}
		writeResult(s.Out, "an exchange of the plugin", result)
		if result.Record.Mode == record.InPlace {
			fmt.Fprintln(s.Out, "what waits in the Delayer is delivered by it: keep its prefix until then")
			return nil
		}
		names := entry.NamesOf(m.settings.Prefix, c.Exchange)
		_, err = fmt.Fprintf(s.Out, `keep delayer serve running until queue %s is empty, and take the exchange out of its configuration then
when nothing waits in the Delayer for it any more, these are of no use: queues %s, %s, %s, and exchange %s with its bindings
`, cli.Shown(names.Queue), cli.Shown(names.Queue), cli.Shown(names.Back), cli.Shown(names.Parked), cli.Shown(string(result.Record.Target)))
		return err
	})
}
