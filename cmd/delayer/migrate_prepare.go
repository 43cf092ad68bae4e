package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/migration/record"
	"github.com/delayer-go/delayer/internal/migration/swap"
	"github.com/delayer-go/delayer/internal/topology"
)

// migratePrepareCmd is `delayer migrate prepare`.
type migratePrepareCmd struct {
	exchangeFlags
	DryRun bool `help:"Print what would be declared, and declare nothing."`
}

// Run declares what the new backend needs beside the old exchange, and begins the record.
func (c *migratePrepareCmd) Run(ctx context.Context, s streams) error {
	if c.DryRun {
		if err := c.print(s); err != nil {
			return failure("migrate prepare", err)
		}
		return nil
	}
	return c.step(ctx, s, "prepare", func(m *migrationSession) error { return c.prepare(ctx, s, m) })
}

func (c *migratePrepareCmd) print(s streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	plan, err := backend.Topology(cfg)
	if err != nil {
		return err
	}
	if err := plan.WriteText(s.out); err != nil {
		return err
	}
	prefix := cfg.Prefix
	if prefix == "" {
		prefix = delayer.DefaultOptions().Prefix
	}
	_, err = fmt.Fprintf(s.out, "queue     %s  the record of this migration\n", record.Queue(prefix, c.Exchange))
	return err
}

func (c *migratePrepareCmd) prepare(ctx context.Context, s streams, m *migrationSession) error {
	return m.locked(ctx, c.Exchange, func(swapper *swap.Swapper, _ *record.Keeper) error {
		fresh, err := swapper.Prepare(ctx)
		if err != nil {
			return err
		}
		if err := c.open(ctx, m); err != nil {
			return err
		}
		if err := m.checkPolicies(ctx, record.Plan(m.settings.Prefix, c.Exchange)); err != nil {
			return err
		}
		verb := "was prepared before: nothing changed"
		if fresh {
			verb = "is prepared; its record is in queue " + record.Queue(m.settings.Prefix, c.Exchange)
		}
		_, err = fmt.Fprintf(s.out, "exchange %s %s\nthe topology of backend %s is declared under the prefix %s\n",
			shown(c.Exchange), verb, m.backendName(), m.settings.Prefix)
		return err
	})
}

// open declares the topology by opening a Delayer.
func (c *migratePrepareCmd) open(ctx context.Context, m *migrationSession) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	d, err := openBriefly(ctx, m.cfg)
	if err != nil {
		return err
	}
	return d.Close()
}

func (m *migrationSession) backendName() string {
	if m.cfg.Backend != "" {
		return m.cfg.Backend
	}
	return backend.Default().Backend
}

// checkPolicies refuses policies that would remove the record.
func (m *migrationSession) checkPolicies(ctx context.Context, p topology.Plan) error {
	settings := m.settings
	if m.cfg.Management == "" {
		return nil
	}
	found, err := settings.Problems(ctx, p)
	if err != nil || len(found) == 0 {
		return err
	}
	return &delayer.Error{
		Op: "prepare", Object: "policies", Kind: delayer.ErrConflict,
		Cause: errors.New(topology.Summary(found)), Hint: topology.PolicyRemedy(settings.Prefix),
	}
}
