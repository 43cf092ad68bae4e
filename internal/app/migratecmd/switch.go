package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
)

// switchCmd is `delayer migrate switch`.
type switchCmd struct {
	exchangeFlags
	Mode string `required:"" enum:"in-place,serve" placeholder:"MODE" help:"in-place: the exchange becomes an ordinary one; its publishers use the library already. serve: it becomes one of delayer serve; its publishers stay as they are."`
	To   string `placeholder:"NAME" help:"With --mode serve: the exchange that gets its bindings, and that consumers bind to from then on. Default: its name and .delivery."`
	Yes  bool   `help:"Switch without asking."`
}

// Validate makes a flag that would do nothing a usage error.
func (c *switchCmd) Validate() error {
	if c.To != "" && c.Mode != string(record.Serving) {
		return errors.New("--to is for --mode serve: a switch in place leaves the bindings where they are")
	}
	return c.exchangeFlags.Validate()
}

// inPlaceWarning is what a switch in place asks for.
const inPlaceWarning = `After this, RabbitMQ does not delay what is published to exchange %s with an x-delay header:
it arrives at once. All its publishers must use package migrate or the library by now. Applications
that declare the exchange as x-delayed-message when they start get a channel error from now on.
`

// serveWarning is what a switch to serve asks for.
const serveWarning = `After this, messages to exchange %s wait in a queue until delayer serve runs for it.
Applications that declare the exchange as x-delayed-message when they start get a channel error from
now on. A queue that an application binds to it gets messages at once and twice, until serve with
move_bindings moves that, which takes it some seconds. Before RabbitMQ 3.13, what waits in the plugin
now waits a second time: evacuate first, or switch in place.
`

// Run asks, and switches.
func (c *switchCmd) Run(ctx context.Context, s cli.Streams) error {
	mode, warning := record.Mode(c.Mode), inPlaceWarning
	if mode == record.Serving {
		warning = serveWarning
	}
	if !c.Yes {
		fmt.Fprintf(s.Out, warning, cli.Shown(c.Exchange))
		if err := cli.Agree(ctx, s, "Switch it?", "yes", "--yes"); err != nil {
			return err
		}
	}
	return c.locked(ctx, func(_ *session, swapper *swap.Swapper) error {
		result, err := swapper.Switch(ctx, mode, c.To)
		if err != nil {
			return err
		}
		if mode == record.InPlace {
			writeResult(s.Out, "an ordinary exchange", result)
			fmt.Fprintln(s.Out, "next: wait, or delayer migrate evacuate, and then retire; rollback "+
				"undoes it until then")
			return nil
		}
		writeResult(s.Out, "an exchange of delayer serve", result)
		if policy := result.Now.Policy; policy != "" {
			fmt.Fprintf(s.Out, "policy %s applies to the exchange: if it sets an alternate "+
				"exchange, let one do so for exchange %s too\n",
				cli.Shown(policy), cli.Shown(string(result.Record.Target)))
		}
		fmt.Fprintf(s.Out, "next: delayer serve, with this in its configuration; then wait, or "+
			"evacuate, and retire; rollback undoes it until then\n%s", serving(result.Record))
		return nil
	})
}

// serving is the configuration of delayer serve for an exchange.
func serving(r record.Record) string {
	spec := r.Spec()
	return fmt.Sprintf("serve:\n  exchanges:\n    - name: %s\n      type: %s\n      to: %s\n      "+
		"move_bindings: true # of services that bind to it when they start\n",
		strconv.Quote(spec.Name), spec.Type, strconv.Quote(spec.To))
}

func writeResult(out io.Writer, what string, r swap.Result) {
	bindings := cli.Count(len(r.Now.Out)+len(r.Now.In), "binding")
	if !r.Changed {
		fmt.Fprintf(out, "exchange %s was %s already, with %s\n", cli.Shown(r.Now.Name), what, bindings)
		return
	}
	fmt.Fprintf(out, "exchange %s is %s now, with %s\nit was there all the time: nothing was lost, "+
		"and publishers saw no error\n",
		cli.Shown(r.Now.Name), what, bindings)
}

// rollbackCmd is `delayer migrate rollback`.
type rollbackCmd struct{ exchangeFlags }

// Run makes the exchange the plugin's again.
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
