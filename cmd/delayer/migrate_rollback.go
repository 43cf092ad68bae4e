package main

import (
	"context"
	"fmt"

	"github.com/delayer-go/delayer/internal/migration/record"
	"github.com/delayer-go/delayer/internal/migration/swap"
)

// migrateRollbackCmd is `delayer migrate rollback`.
type migrateRollbackCmd struct {
	exchangeFlags
	Force bool `help:"After a bridge: remove what it left even if messages wait in the Delayer, which may be for it."`
}

// Run makes the exchange the plugin's again. Run again, it removes what a bridge left.
func (c *migrateRollbackCmd) Run(ctx context.Context, s streams) error {
	return c.step(ctx, s, "rollback", func(m *migrationSession) error {
		return m.locked(ctx, c.Exchange, func(swapper *swap.Swapper, keeper *record.Keeper) error {
			before, _ := keeper.Record()
			result, err := swapper.Rollback(ctx)
			if err != nil {
				return err
			}
			writeResult(s.out, c.Exchange, result)
			after, _ := keeper.Record()
			switch {
			case !after.Bridged:
				fmt.Fprintln(s.out, "what waits in the Delayer is delivered by it: keep its prefix until then")
				return nil
			case before.Step != record.Restored:
				fmt.Fprintf(s.out, "keep delayer migrate bridge running until queue %s is empty, stop it, and run this again: it removes what the bridge needed\n",
					record.Bridge(m.settings.Prefix, c.Exchange))
				return nil
			}
			return c.remove(ctx, s, m, swapper)
		})
	})
}

func (c *migrateRollbackCmd) remove(ctx context.Context, s streams, m *migrationSession, swapper *swap.Swapper) error {
	if err := m.removeBridge(ctx, swapper, c.Force); err != nil {
		return err
	}
	_, err := fmt.Fprintln(s.out, "what the bridge needed was removed")
	return err
}
