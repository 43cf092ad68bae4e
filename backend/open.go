package backend

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/engine"
)

// A strategy is a backend as this package knows it.
type strategy struct {
	name     string
	open     func(context.Context, Config) (delayer.Delayer, error)
	topology func(Config) (delayer.Topology, error)
	limits   func(Config) (delayer.Limits, error)
	about    delayer.About
}

// strategies are in the order of the configuration.
var strategies = []strategy{
	of(binaryladder.Name, binaryladder.About(), binaryladder.Open, binaryladder.Topology, binaryladder.Limits,
		func(c Config) binaryladder.Config { return c.BinaryLadder }),
	of(fixedtiers.Name, fixedtiers.About(), fixedtiers.Open, fixedtiers.Topology, fixedtiers.Limits,
		func(c Config) fixedtiers.Config { return c.FixedTiers }),
	of(plugin.Name, plugin.About(), plugin.Open, plugin.Topology, plugin.Limits,
		func(c Config) plugin.Config { return c.Plugin }),
	of(controller.Name, controller.About(), controller.Open, controller.Topology, controller.Limits,
		func(c Config) controller.Config { return c.Controller }),
}

// of makes a strategy from a package's functions. section returns its part of a Config.
func of[C any](
	name string,
	about delayer.About,
	open func(context.Context, delayer.Options, C) (delayer.Delayer, error),
	topology func(delayer.Options, C) (delayer.Topology, error),
	limits func(delayer.Options, C) (delayer.Limits, error),
	section func(Config) C,
) strategy {
	return strategy{
		name:     name,
		about:    about,
		open:     func(ctx context.Context, c Config) (delayer.Delayer, error) { return open(ctx, c.Options, section(c)) },
		topology: func(c Config) (delayer.Topology, error) { return topology(c.Options, section(c)) },
		limits:   func(c Config) (delayer.Limits, error) { return limits(c.Options, section(c)) },
	}
}

// Names lists the backends.
func Names() []string {
	names := make([]string, len(strategies))
	for i, s := range strategies {
		names[i] = s.name
	}
	slices.Sort(names)
	return names
}

// About returns what tables and reports say of a backend, by its name. Errors are ErrConfig.
func About(name string) (delayer.About, error) {
	s, err := Config{Backend: name}.strategy()
	return s.about, err
}

func (c Config) strategy() (strategy, error) {
	name := cmp.Or(c.Backend, Default().Backend)
	i := slices.IndexFunc(strategies, func(s strategy) bool { return s.name == name })
	if i < 0 {
		return strategy{}, engine.ConfigError("backend", fmt.Errorf("unknown backend %q", name), "known: "+strings.Join(Names(), ", "))
	}
	return strategies[i], nil
}

// Open connects to the broker, declares what the backend needs there and returns it ready to
// publish. ctx bounds the opening only. Every error is a *[delayer.Error]: ErrConfig names the key
// that is wrong, ErrUnavailable and ErrAccess concern the broker, ErrConflict says that objects of
// this prefix exist with another configuration. After an error nothing is left open.
func Open(ctx context.Context, cfg Config) (delayer.Delayer, error) {
	s, err := cfg.strategy()
	if err != nil {
		return nil, err
	}
	return s.open(ctx, cfg)
}

// Limits returns what a Delayer of this configuration can do. It asks no broker: with quorum queues
// of RabbitMQ 4.0 to 4.2 MaxPriority is lower. Errors are ErrConfig.
func Limits(cfg Config) (delayer.Limits, error) {
	s, err := cfg.strategy()
	if err != nil {
		return delayer.Limits{}, err
	}
	return s.limits(cfg)
}

// Topology returns what [Open] with this configuration declares, and for fixedtiers also the queues
// that administrators route existing exchanges through. It asks no broker. Errors are ErrConfig.
func Topology(cfg Config) (delayer.Topology, error) {
	s, err := cfg.strategy()
	if err != nil {
		return nil, err
	}
	return s.topology(cfg)
}

// WriteDefinitions writes the topology of a configuration as JSON that RabbitMQ imports, for the
// virtual host of its URL; without a URL that is "/". Errors are ErrConfig, or those of w.
func WriteDefinitions(w io.Writer, cfg Config) error {
	t, err := Topology(cfg)
	vhost := "/"
	if err == nil && cfg.URL != "" {
		vhost, err = broker.Vhost(cfg.URL)
	}
	if err != nil {
		return err
	}
	return t.WriteDefinitions(w, vhost)
}

// ServeController runs a controller of backend controller and nothing else, until ctx ends. It then
// stops taking messages, waits for those that are being published, returns the others to the broker
// and returns nil. The configuration is that of the Delayers; Controller.Run is ignored. Errors are
// those of Open, and ErrConfig with another backend.
func ServeController(ctx context.Context, cfg Config) error {
	s, err := cfg.strategy()
	if err != nil {
		return err
	}
	if s.name != controller.Name {
		return engine.ConfigError("backend", fmt.Errorf("%s needs no controller", s.name), "set backend: "+controller.Name)
	}
	return controller.Serve(ctx, cfg.Options, cfg.Controller)
}
