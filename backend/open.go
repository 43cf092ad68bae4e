package backend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/backend/native"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/topology"
)

// Open connects to the broker, declares what the backend needs there and returns it ready to
// publish. ctx bounds the opening only. Every error is a *[delayer.Error]: ErrConfig names the key
// that is wrong, ErrUnavailable and ErrAccess concern the broker, ErrNotFound says that it lacks the
// plugin, or what native needs, and ErrConflict that objects of this prefix exist with another
// configuration. After an error nothing is left open.
func Open(ctx context.Context, cfg Config) (delayer.Delayer, error) {
	r, err := cfg.row()
	if err != nil {
		return nil, err
	}
	return r.open(ctx, cfg)
}

// OpenURL is [Open] with the defaults, for the broker at an address such as
// amqp://guest:guest@localhost:5672/. Everything else is in Config. Errors are those of Open.
func OpenURL(ctx context.Context, url string) (delayer.Delayer, error) {
	return Open(ctx, Config{Options: delayer.Options{URL: url}})
}

// Limits returns what a Delayer of this configuration can do; with [Auto] those of binaryladder. It
// asks no broker: with a ladder or tiers of quorum queues on RabbitMQ 4.0 to 4.2 MaxPriority is
// lower. Errors are ErrConfig.
func Limits(cfg Config) (delayer.Limits, error) {
	r, err := cfg.row()
	if err != nil {
		return delayer.Limits{}, err
	}
	return r.limits(cfg)
}

// Topology returns what [Open] with this configuration declares, and for fixedtiers also the queues
// that administrators route existing exchanges through. It asks no broker. Errors are ErrConfig.
func Topology(cfg Config) (topology.Plan, error) {
	r, err := cfg.row()
	if err != nil {
		return topology.Plan{}, err
	}
	return r.topology(cfg)
}

// table has the backends in the order of the configuration. Everything that lists backends reads
// it: the commands, the conformance suite, fault campaigns, benchmarks and tables.
var table = []row{
	of(binaryladder.Name, binaryladder.Open, binaryladder.Topology, binaryladder.Limits,
		func(c Config) binaryladder.Config { return c.BinaryLadder }),
	of(fixedtiers.Name, fixedtiers.Open, fixedtiers.Topology, fixedtiers.Limits,
		func(c Config) fixedtiers.Config { return c.FixedTiers }),
	{
		plugin.Name, // which has no section
		func(ctx context.Context, c Config) (delayer.Delayer, error) { return plugin.Open(ctx, c.Options) },
		func(c Config) (topology.Plan, error) { return plugin.Topology(c.Options) },
		func(c Config) (delayer.Limits, error) { return plugin.Limits(c.Options) },
	},
	of(controller.Name, controller.Open, controller.Topology, controller.Limits,
		func(c Config) controller.Config { return c.Controller }),
	of(native.Name, native.Open, native.Topology, native.Limits,
		func(c Config) native.Config { return c.Native }),
}

// A row is a backend as this package knows it.
type row struct {
	name     string
	open     func(context.Context, Config) (delayer.Delayer, error)
	topology func(Config) (topology.Plan, error)
	limits   func(Config) (delayer.Limits, error)
}

// of makes a row from a package's functions. section returns its part of a Config.
func of[C any](
	name string,
	open func(context.Context, delayer.Options, C) (delayer.Delayer, error),
	plan func(delayer.Options, C) (topology.Plan, error),
	limits func(delayer.Options, C) (delayer.Limits, error),
	section func(Config) C,
) row {
	return row{
		name:     name,
		open:     func(ctx context.Context, c Config) (delayer.Delayer, error) { return open(ctx, c.Options, section(c)) },
		topology: func(c Config) (topology.Plan, error) { return plan(c.Options, section(c)) },
		limits:   func(c Config) (delayer.Limits, error) { return limits(c.Options, section(c)) },
	}
}

// Names lists the backends. [Auto] is none of them.
func Names() []string {
	names := make([]string, len(table))
	for i, r := range table {
		names[i] = r.name
	}
	slices.Sort(names)
	return names
}

func (c Config) row() (row, error) {
	name := cmp.Or(c.Backend, Default().Backend)
	if name == Auto {
		return automatic(), nil
	}
	i := slices.IndexFunc(table, func(r row) bool { return r.name == name })
	if i < 0 {
		return row{}, engine.ConfigError("backend", fmt.Errorf("unknown backend %q", name), "known: "+strings.Join(append(Names(), Auto), ", "))
	}
	return table[i], nil
}
