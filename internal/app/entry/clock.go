package entry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// A clock is what is known of the broker's, which dates the messages that it gets.
type clock struct {
	known *brokertime.Clock
	stop  context.CancelFunc
	run   sync.WaitGroup
}

// clockPlan is what the broker's time is asked for with: a question expires in a queue, which dates
// it.
func clockPlan(prefix string) topology.Plan {
	p := clockOf(prefix).Plan()
	p.Exchanges = append(p.Exchanges, topology.Exchange{Name: clockOf(prefix).Exchange, Kind: topology.Direct})
	return p
}

func clockOf(prefix string) brokertime.Shared {
	name := prefix + ".serve.clock"
	return brokertime.Shared{Queue: name, Exchange: name, Key: "question", Answers: name + ".answers"}
}

// trusting reports whether an entry trusts the times of its messages.
func trusting(specs []Spec) bool {
	return slices.ContainsFunc(specs, func(s Spec) bool { return s.TrustTimestamps })
}

// learnTime declares what is missing and returns once the broker's time is known, to a second. It
// is known better ten seconds later.
func (r *Runner) learnTime(ctx context.Context) error {
	prefix, shared := r.cfg.Settings.Prefix, clockOf(r.cfg.Settings.Prefix)
	shared.Restore = func(ctx context.Context) error { return objects.Of(r.control, "").Apply(ctx, clockPlan(prefix)) }
	if err := shared.Restore(ctx); err != nil {
		return err
	}
	known := brokertime.New(brokertime.Config{
		Prefix: prefix + ".serve", Logger: r.log, Control: r.control, Shared: shared,
		Publish: func(ctx context.Context, p broker.Publishing) error { return r.publisher.PublishDirect(ctx, p) },
	})
	if err := known.Ask(ctx); err != nil {
		return err
	}
	asking, stop := context.WithCancel(context.Background())
	r.clock = &clock{known: known, stop: stop}
	r.clock.run.Go(func() { known.Run(asking) })
	return nil
}

// earliest is a time that the broker's clock has reached; ok is false if its time is not known.
func (c *clock) earliest() (at time.Time, ok bool) {
	if c == nil {
		return at, false
	}
	c.known.Use()
	now, ok := c.known.Read()
	return now.Earliest, ok
}

func (c *clock) close() {
	if c == nil {
		return
	}
	c.stop()
	c.run.Wait()
}
