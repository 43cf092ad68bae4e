package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/topology"
)

// A strategy is a backend as this package knows it. Its functions take a configuration without zero fields.
type strategy struct {
	open     func(context.Context, engine.Options, Config) (delayer.Delayer, error)
	describe func(engine.Options, Config) (engine.Description, error)
}

var strategies = map[string]strategy{
	binaryladder.Name: {
		open: func(ctx context.Context, o engine.Options, c Config) (delayer.Delayer, error) {
			return opened(binaryladder.Open(ctx, o, c.BinaryLadder.config()))
		},
		describe: func(o engine.Options, c Config) (engine.Description, error) {
			return binaryladder.Describe(o, c.BinaryLadder.config())
		},
	},
	fixedtiers.Name: {
		open: func(ctx context.Context, o engine.Options, c Config) (delayer.Delayer, error) {
			return opened(fixedtiers.Open(ctx, o, c.FixedTiers.config()))
		},
		describe: func(o engine.Options, c Config) (engine.Description, error) {
			return fixedtiers.Describe(o, c.FixedTiers.config())
		},
	},
	plugin.Name: {
		open: func(ctx context.Context, o engine.Options, c Config) (delayer.Delayer, error) {
			return opened(plugin.Open(ctx, o, c.Plugin.config()))
		},
		describe: func(o engine.Options, c Config) (engine.Description, error) {
			return plugin.Describe(o, c.Plugin.config())
		},
	},
	controller.Name: {
		open: func(ctx context.Context, o engine.Options, c Config) (delayer.Delayer, error) {
			return opened(controller.Open(ctx, o, c.Controller.config()))
		},
		describe: func(o engine.Options, c Config) (engine.Description, error) {
			return controller.Describe(o, c.Controller.config())
		},
	},
}

func (b BinaryLadder) config() binaryladder.Config {
	return binaryladder.Config{
		Levels: b.Levels, Tick: b.Tick, Routing: binaryladder.Routing(b.Routing), BitsPerLevel: b.BitsPerLevel,
	}
}

func (f FixedTiers) config() fixedtiers.Config {
	return fixedtiers.Config{
		Prefix: f.Prefix, Tiers: f.Tiers, Rounding: fixedtiers.Rounding(f.Rounding),
		MaxLength: f.MaxLength, Overflow: fixedtiers.Overflow(f.Overflow),
	}
}

func (p Plugin) config() plugin.Config { return plugin.Config{Exchange: p.Exchange} }

func (c Controller) config() controller.Config {
	return controller.Config{Levels: c.Levels, Tick: c.Tick, Run: *c.Run}
}

// opened keeps a nil pointer from becoming a Delayer that is not nil.
func opened[D delayer.Delayer](d D, err error) (delayer.Delayer, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Names lists the backends there are.
func Names() []string { return slices.Sorted(maps.Keys(strategies)) }

// Open connects to the broker, declares what the backend needs there and returns it ready to publish.
// ctx bounds the opening only. Every error is a *[delayer.Error]: ErrConfig names the key that is wrong,
// ErrUnavailable and ErrAccess concern the broker, ErrConflict says that objects of this prefix exist
// with another configuration. After an error nothing is left open.
func Open(ctx context.Context, cfg Config) (delayer.Delayer, error) {
	cfg = cfg.withDefaults()
	s, opts, err := cfg.strategy()
	if err != nil {
		return nil, err
	}
	return s.open(ctx, opts, cfg)
}

// ServeController runs a controller of backend controller and nothing else, until ctx ends. It then stops taking
// messages, waits for those that are being published, hands the others back to the broker and returns nil.
// The configuration is that of the Delayers; its Controller.Run is not looked at. Errors are those of Open; with
// another backend, ErrConfig.
func ServeController(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	_, opts, err := cfg.strategy()
	if err != nil {
		return err
	}
	if cfg.Backend != controller.Name {
		return configError("backend", fmt.Errorf("%s needs no controller", cfg.Backend), "want backend: "+controller.Name)
	}
	return controller.Serve(ctx, opts, cfg.Controller.config())
}

// strategy checks what all backends have in common. c must be without zero fields.
func (c Config) strategy() (strategy, engine.Options, error) {
	s, ok := strategies[c.Backend]
	if !ok {
		return s, engine.Options{}, configError("backend", fmt.Errorf("%q is no backend", c.Backend), "known: "+strings.Join(Names(), ", "))
	}
	kind := topology.QueueType(c.QueueType)
	if kind != topology.Quorum && kind != topology.Classic {
		return s, engine.Options{}, configError("queue_type", fmt.Errorf("%q is neither quorum nor classic", c.QueueType), "")
	}
	const mostConnections = 64
	if c.Connections < 1 || c.Connections > mostConnections {
		return s, engine.Options{}, configError("connections", fmt.Errorf("%d is not between 1 and %d", c.Connections, mostConnections), "1 is enough for most")
	}
	encrypt, err := c.TLSConfig()
	if err != nil {
		return s, engine.Options{}, err
	}
	c.TLS, c.TLSFiles = encrypt, TLS{}
	inspect, err := c.inspector()
	if err != nil {
		return s, engine.Options{}, err
	}
	return s, engine.Options{
		Imported:    !*c.Declare,
		Inspect:     inspect,
		Broker:      broker.Options{URL: c.URL, TLS: c.TLS, Logger: c.Logger, Backend: c.Backend, Outages: new(broker.Outages)},
		Prefix:      c.Prefix,
		QueueType:   kind,
		Connections: c.Connections,
	}, nil
}
