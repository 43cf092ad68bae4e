package backend

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/native"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/topology"
)

// Auto is a Config.Backend: native where the broker can do it, otherwise binaryladder. [Open] tries
// native, tells the Logger which one it is and why, and keeps to it: after an upgrade of the broker,
// open again. What waits in the queues of the other is delivered from there.
//
// [Limits] are those of binaryladder, which has the narrower ones; a Delayer tells its own. [Topology]
// and [Remove] have both. Verify and Apply take what the version of the broker lets Open try.
const Auto = "auto"

func automatic() row {
	return row{
		name: Auto,
		open: openAuto,
		topology: func(c Config) (p topology.Plan, err error) {
			for _, name := range autos {
				c.Backend = name
				one, err := Topology(c)
				if err != nil && name != native.Name { // which classic queues are not for
					return p, err
				}
				p = merge(p, one)
			}
			return p, nil
		},
		limits: func(c Config) (delayer.Limits, error) {
			c.Backend = binaryladder.Name
			return Limits(c)
		},
	}
}

var autos = [...]string{binaryladder.Name, native.Name}

// merge adds to p what it lacks of q. Both have the delivery stage.
func merge(p, q topology.Plan) topology.Plan {
	q.Exchanges = slices.DeleteFunc(slices.Clone(q.Exchanges), func(x topology.Exchange) bool { return slices.Contains(p.Exchanges, x) })
	q.Bindings = slices.DeleteFunc(slices.Clone(q.Bindings), func(b topology.Binding) bool { return slices.Contains(p.Bindings, b) })
	q.Queues = slices.DeleteFunc(slices.Clone(q.Queues), func(one topology.Queue) bool {
		return slices.ContainsFunc(p.Queues, func(other topology.Queue) bool { return one.Name == other.Name })
	})
	return p.Add(q)
}

func openAuto(ctx context.Context, c Config) (delayer.Delayer, error) {
	log := cmp.Or(c.Logger, slog.Default())
	c.Backend = native.Name
	d, why := Open(ctx, c)
	if why == nil {
		log.Info("backend auto takes native")
		return d, nil
	}
	if ctx.Err() != nil {
		return nil, why
	}
	c.Backend = binaryladder.Name
	d, err := Open(ctx, c)
	if err == nil {
		log.Info("backend auto takes binaryladder", "because", why)
	}
	return d, err
}

// Choose is for programs that look at queues, as the commands do: it returns the configuration whose
// objects are there. [Open] does not need it. With [Auto] it asks the broker
// for its version: native where Open may take that. Errors are those of Open.
func Choose(ctx context.Context, c Config) (Config, error) {
	if c.Backend != Auto {
		return c, nil
	}
	c.Backend = binaryladder.Name
	settings, err := engine.Resolve(c.Options, c.Backend)
	if err != nil {
		return c, err
	}
	conn, err := engine.Connect(ctx, settings)
	if err != nil {
		return c, err
	}
	defer conn.Close()
	of := c
	of.Backend = native.Name
	if _, err := Limits(of); err == nil && conn.HidesMessages() { // classic queues are not for it
		return of, nil
	}
	return c, nil
}
