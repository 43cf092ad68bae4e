package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/delayer-go/delayer/internal/migration/record"
	"github.com/delayer-go/delayer/internal/migration/swap"
)

// migrateSwitchCmd is `delayer migrate switch`.
type migrateSwitchCmd struct {
	exchangeFlags
	Mode string `required:"" enum:"in-place,bridge" placeholder:"MODE" help:"in-place: the exchange becomes an ordinary one; its publishers use the library already. bridge: it leads to the queue of delayer migrate bridge."`
	Yes  bool   `help:"Switch without asking."`
}

// inPlaceWarning is what a switch in place asks for.
const inPlaceWarning = `After this, RabbitMQ does not delay what is published to exchange %s with an x-delay header:
it arrives at once. All its publishers must use package migrate or the library by now. Applications
that declare the exchange as x-delayed-message when they start get a channel error from now on.
`

// bridgeWarning is what a switch to a bridge asks for.
const bridgeWarning = `After this, messages to exchange %s wait in a queue until delayer migrate bridge runs for it.
Applications that declare the exchange as x-delayed-message when they start get a channel error from
now on. A queue that an application binds to it gets messages at once and twice, until this command
is run again: it moves such bindings. Before RabbitMQ 4.0, what waits in the plugin now waits a
second time: evacuate first, or switch in place.
`

// Run asks, and switches.
func (c *migrateSwitchCmd) Run(ctx context.Context, s streams) error {
	return c.step(ctx, s, "switch", func(m *migrationSession) error {
		if err := c.agree(ctx, s); err != nil {
			return err
		}
		return m.locked(ctx, c.Exchange, func(swapper *swap.Swapper, keeper *record.Keeper) error {
			if err := c.mustBePrepared(ctx, m, keeper); err != nil {
				return err
			}
			if m.control == nil {
				fmt.Fprintln(s.err, "without --rabbitmqctl the exchange is away for a moment: what falls due then is lost")
			}
			result, err := swapper.Switch(ctx, c.mode())
			if err != nil {
				return err
			}
			writeResult(s.out, c.Exchange, result)
			c.next(s.out, m, keeper)
			return nil
		})
	})
}

// mustBePrepared: nothing is deleted without a record that stays.
func (c *migrateSwitchCmd) mustBePrepared(ctx context.Context, m *migrationSession, keeper *record.Keeper) error {
	if _, found := keeper.Record(); !found {
		return fmt.Errorf("exchange %q is not prepared (run delayer migrate prepare first, with the same configuration)", c.Exchange)
	}
	return m.checkPolicies(ctx, record.Plan(m.settings.Prefix, c.Exchange))
}

func (c *migrateSwitchCmd) mode() record.Mode { return record.Mode(c.Mode) }

func (c *migrateSwitchCmd) agree(ctx context.Context, s streams) error {
	if c.Yes {
		return nil
	}
	warning := inPlaceWarning
	if c.mode() == record.Bridging {
		warning = bridgeWarning
	}
	fmt.Fprintf(s.out, warning, shown(c.Exchange))
	return agree(ctx, s, "Switch it?", "yes", "--yes")
}

// next says what to do next.
func (c *migrateSwitchCmd) next(out io.Writer, m *migrationSession, keeper *record.Keeper) {
	if c.mode() == record.Bridging {
		if r, _ := keeper.Record(); r.Former.Policy != "" {
			fmt.Fprintf(out, "policy %s applied to the exchange: if it sets an alternate exchange, let one do so for exchange %s too\n",
				shown(r.Former.Policy), record.Behind(m.settings.Prefix, c.Exchange))
		}
		fmt.Fprintf(out, "next: delayer migrate bridge --exchange %s\nits queue is %s\n", shown(c.Exchange), record.Bridge(m.settings.Prefix, c.Exchange))
		return
	}
	fmt.Fprintln(out, "next: delayer migrate drain or evacuate, and then retire; rollback undoes it until then")
}

// writeResult says what a change did.
func writeResult(out io.Writer, exchange string, r swap.Result) {
	if r.Changed {
		fmt.Fprintf(out, "exchange %s is %s now, with %s\n", shown(exchange), shapeText[r.To], bindings(r.Bindings))
	} else {
		fmt.Fprintf(out, "exchange %s was %s already, with %s\n", shown(exchange), shapeText[r.To], bindings(r.Bindings))
	}
	switch {
	case r.Gap > 0:
		fmt.Fprintf(out, "it was away for at most %v: publishers got 404 NOT_FOUND, and what fell due is lost\n", r.Gap.Round(100*time.Microsecond))
	case r.Changed:
		fmt.Fprintln(out, "it was there all the time: nothing was lost, and publishers saw no error")
	}
	if r.Repaired > 0 {
		fmt.Fprintf(out, "%s missing after that, and made again\n", bindings(r.Repaired))
	}
	for _, b := range r.Gone {
		fmt.Fprintf(out, "not bound again, because one end was deleted meanwhile: %q to %q, key %q\n", b.Source, b.Target, b.Key)
	}
}

func bindings(n int) string {
	if n == 1 {
		return "1 binding"
	}
	return fmt.Sprintf("%d bindings", n)
}

// shapeText names shapes for people.
var shapeText = map[swap.Shape]string{
	swap.Plain: "an ordinary exchange", swap.Front: "the front of a bridge", swap.Delayed: "an exchange of the plugin",
}
