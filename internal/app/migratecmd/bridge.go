package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/bridge"
	"github.com/delayer-go/delayer/internal/app/service"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// bridgeCmd is `delayer migrate bridge`.
type bridgeCmd struct {
	commonFlags
	service.Flags
	Exchange        string `required:"" placeholder:"NAME" help:"The exchange that was switched with --mode bridge."`
	Prefetch        int    `default:"500" help:"How many messages are under way at a time (default ${default}). Their bodies are in memory."`
	TrustTimestamps bool   `help:"Count a delay from the message's timestamp, not from when the bridge reads it. A publisher whose clock is behind this machine's makes messages early."`
	KeepXDelay      bool   `name:"keep-x-delay" help:"Give consumers the x-delay header that the plugin leaves. Each delayed message then passes a bridge a second time, when it is due."`
}

// Validate makes a value that cannot be right a usage error.
func (c *bridgeCmd) Validate() error {
	switch {
	case c.Exchange == "":
		return errors.New("--exchange: the name is empty")
	case c.Prefetch <= 0 || c.Prefetch > math.MaxUint16:
		return fmt.Errorf("--prefetch: %d is not between 1 and %d", c.Prefetch, math.MaxUint16)
	}
	if err := c.Flags.Validate(); err != nil {
		return err
	}
	return c.commonFlags.Validate()
}

// Run passes messages on until SIGTERM or Ctrl-C. The exit status is then 0.
func (c *bridgeCmd) Run(ctx context.Context, s cli.Streams) error {
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	running, err := c.Start(ctx, s.Err)
	if err != nil {
		return err
	}
	defer running.Close()
	running.Configure(&cfg)
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return err
	}
	what := bridge.Config{
		Config: entry.Config{Settings: settings, Prefetch: c.Prefetch}, Exchange: c.Exchange,
		TrustTimestamps: c.TrustTimestamps, KeepXDelay: c.KeepXDelay,
	}
	if cfg.Management != "" {
		if what.API, err = c.api(cfg); err != nil {
			return err
		}
	}
	opening, cancel := c.Within(ctx)
	defer cancel()
	d, err := backend.Open(opening, cfg)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // what is not confirmed is still in the bridge's queue
	what.Delayer = d
	b, err := bridge.Open(opening, what)
	if err != nil {
		return err
	}
	defer b.Close()
	running.Register(service.NewBridgeCounter(b.Counts()))
	running.Log.Info("the bridge starts", "exchange", c.Exchange, "management", cfg.Management != "")
	b.Run(ctx)
	return nil
}
