package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

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
	return c.step(ctx, s, func(m *session) error {
		if !c.Yes {
			fmt.Fprintf(s.Out, warning, cli.Shown(c.Exchange))
			if err := cli.Agree(ctx, s, "Switch it?", "yes", "--yes"); err != nil {
				return err
			}
		}
		return m.locked(ctx, c.Exchange, func(swapper *swap.Swapper, journal *record.Journal) error {
			if _, found := journal.Record(); !found {
				return fmt.Errorf("exchange %q is not prepared (run delayer migrate prepare first, with the same configuration)", c.Exchange)
			}
			if err := m.checkPolicies(ctx, record.Plan(m.settings.Prefix, c.Exchange)); err != nil {
				return err
			}
			if m.control == nil {
				fmt.Fprintln(s.Err, "without --rabbitmqctl the exchange is away for a moment: what falls due then is lost")
			}
			result, err := swapper.Switch(ctx, mode, c.To)
			if err != nil {
				return err
			}
			writeResult(s.Out, c.Exchange, result)
			if mode == record.InPlace {
				fmt.Fprintln(s.Out, "next: delayer migrate drain or evacuate, and then retire; rollback undoes it until then")
				return nil
			}
			r, _ := journal.Record()
			return writeServing(s.Out, r)
		})
	})
}

// writeServing says how delayer serve passes the messages of an exchange on.
func writeServing(out io.Writer, r record.Record) error {
	if r.Former.Policy != "" {
		fmt.Fprintf(out, "policy %s applied to the exchange: if it sets an alternate exchange, let one do so for exchange %s too\n",
			cli.Shown(r.Former.Policy), cli.Shown(r.Target))
	}
	_, err := fmt.Fprintf(out, "next: delayer serve, with this in its configuration, and then drain or evacuate, and retire; rollback undoes it until then\n%s", serving(r))
	return err
}

// serving is the configuration of delayer serve for an exchange.
func serving(r record.Record) string {
	spec := r.Spec()
	return fmt.Sprintf("serve:\n  exchanges:\n    - name: %s\n      type: %s\n      to: %s\n      move_bindings: true # of services that bind to it when they start\n",
		strconv.Quote(spec.Name), spec.Type, strconv.Quote(spec.To))
}

func writeResult(out io.Writer, exchange string, r swap.Result) {
	format := "exchange %s was %s already, with %s\n"
	if r.Changed {
		format = "exchange %s is %s now, with %s\n"
	}
	fmt.Fprintf(out, format, cli.Shown(exchange), map[swap.Shape]string{
		swap.Plain: "an ordinary exchange", swap.Front: "an exchange of delayer serve", swap.Delayed: "an exchange of the plugin",
	}[r.To], cli.Count(r.Bindings, "binding"))
	switch {
	case r.Gap > 0:
		fmt.Fprintf(out, "it was away for at most %v: publishers got 404 NOT_FOUND, and what fell due is lost\n", r.Gap.Round(100*time.Microsecond))
	case r.Changed:
		fmt.Fprintln(out, "it was there all the time: nothing was lost, and publishers saw no error")
	}
	if r.Repaired > 0 {
		fmt.Fprintf(out, "%s missing after that, and made again\n", cli.Count(r.Repaired, "binding"))
	}
	for _, b := range r.Gone {
		fmt.Fprintf(out, "not bound again, because one end was deleted meanwhile: %q to %q, key %q\n", b.Source, b.Target, b.Key)
	}
}

// rollbackCmd is `delayer migrate rollback`.
type rollbackCmd struct {
	exchangeFlags
	Force bool `help:"After delayer serve: remove what it needed even if messages wait in the Delayer that only serve can deliver."`
}

// Run makes the exchange the plugin's again. Run again, it removes what delayer serve needed.
func (c *rollbackCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.step(ctx, s, func(m *session) error {
		return m.locked(ctx, c.Exchange, func(swapper *swap.Swapper, journal *record.Journal) error {
			before, _ := journal.Record()
			result, err := swapper.Rollback(ctx)
			if err != nil {
				return err
			}
			writeResult(s.Out, c.Exchange, result)
			after, _ := journal.Record()
			switch {
			case after.Target == "":
				fmt.Fprintln(s.Out, "what waits in the Delayer is delivered by it: keep its prefix until then")
				return nil
			case before.Step != record.Restored:
				fmt.Fprintf(s.Out, "keep delayer serve running until queue %s is empty, take the exchange out of its configuration, and run this again: it removes what serve needed\n",
					cli.Shown(entry.NamesOf(m.settings.Prefix, c.Exchange).Queue))
				return nil
			}
			return m.removeServe(ctx, s, swapper, c.Force)
		})
	})
}
