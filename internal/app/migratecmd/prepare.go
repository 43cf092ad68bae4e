package migratecmd

import (
	"cmp"
	"context"
	"fmt"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
)

// prepareCmd is `delayer migrate prepare`.
type prepareCmd struct {
	exchangeFlags
	DryRun bool `help:"Print what would be declared, and declare nothing."`
}

// Run declares what the new backend needs beside the old exchange, and begins the record.
func (c *prepareCmd) Run(ctx context.Context, s cli.Streams) error {
	if c.DryRun {
		return c.print(s)
	}
	return c.step(ctx, s, func(m *session) error {
		return m.locked(ctx, c.Exchange, func(swapper *swap.Swapper, _ *record.Journal) error {
			plan, err := backend.Topology(m.cfg)
			if err != nil {
				return err
			}
			fresh, err := swapper.Prepare(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Err, "declaring %s and %s under the prefix %s, which takes some seconds\n",
				cli.Count(len(plan.Exchanges), "exchange"), cli.Count(len(plan.Queues), "queue"), m.settings.Prefix)
			opening, cancel := c.Within(ctx)
			defer cancel()
			d, err := flags.OpenBriefly(opening, m.cfg) // declares the topology
			if err != nil {
				return err
			}
			if err := d.Close(); err != nil {
				return err
			}
			if err := m.checkPolicies(ctx, record.Plan(m.settings.Prefix, c.Exchange)); err != nil {
				return err
			}
			verb := "was prepared before: nothing changed"
			if fresh {
				verb = "is prepared; its record is in queue " + record.Queue(m.settings.Prefix, c.Exchange)
			}
			_, err = fmt.Fprintf(s.Out, "exchange %s %s\nthe topology of backend %s is declared under the prefix %s\n",
				cli.Shown(c.Exchange), verb, cmp.Or(m.cfg.Backend, backend.Default().Backend), m.settings.Prefix)
			return err
		})
	})
}

func (c *prepareCmd) print(s cli.Streams) error {
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	plan, err := backend.Topology(cfg)
	if err != nil {
		return err
	}
	if err := plan.WriteText(s.Out); err != nil {
		return err
	}
	queue := record.Queue(cmp.Or(cfg.Prefix, backend.Default().Prefix), c.Exchange)
	_, err = fmt.Fprintf(s.Out, "queue     %s  the record of this migration\n", queue)
	return err
}
