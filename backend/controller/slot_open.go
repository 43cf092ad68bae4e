package controller

import (
	"context"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	stamps "github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

const longest = stamps.Longest

func whole(delay time.Duration) time.Duration { return stamps.Whole(delay) }

// newBlueprint is the wheel of slots.
func newBlueprint(s engine.Settings) blueprint {
	return blueprint{wheel: wheel.Default(), names: names{s.Prefix}, kind: s.QueueType, stage: s.Stage()}
}

// Open opens a Delayer that learns the broker's time, with a controller if runs is true.
func (b blueprint) Open(ctx context.Context, s engine.Settings, runs bool) (delayer.Delayer, error) {
	c, err := engine.Connect(ctx, s)
	if err != nil {
		return nil, err
	}
	base := strategy{blueprint: b, limits: b.Limits(c.MaxPriority())}
	knows := &brokerClock{}
	strategy := &slotStrategy{strategy: base, clock: knows}
	e, err := c.Start(ctx, strategy)
	if err != nil {
		return nil, err
	}
	strategy.publish = e.PublishDirect
	d := &withController{Engine: e}
	shared := base.blueprint.names.shared()
	shared.Restore = e.Keeper().Redeclare
	asks := brokertime.New(brokertime.Config{
		Backend: Name, Prefix: s.Prefix, Logger: s.BrokerOptions("").Slog(), Control: e.Control(), Shared: shared, Publish: e.PublishDirect,
	})
	log, err := brokertime.OpenLog(ctx, asks, brokertime.LogConfig{
		Queue: base.blueprint.names.steps(), Exchange: base.blueprint.names.enterSlots(), Key: stepsKey, Conn: e.Control().Conn(),
	})
	if err == nil {
		asking, stop := context.WithCancel(context.Background())
		d.stopAsking = func() { stop(); log.Close() }
		if err = asks.Ask(ctx); err == nil && runs {
			d.runner, err = run(ctx, s, base.blueprint, e.Keeper(), knows)
		}
		knows.set(asks)
		d.asking.Go(func() { asks.Run(asking) })
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return &scheduler{withController: d, prefix: s.Prefix, strategy: strategy}, nil
}

// withController is a Delayer beside which a controller runs.
type withController struct {
	*engine.Engine
	stop       sync.Once
	runner     *runner            // nil if none runs here
	stopAsking context.CancelFunc // for the broker's time
	asking     sync.WaitGroup
}

// Close implements [delayer.Delayer].
func (c *withController) Close() error {
	stopped := make(chan struct{})
	go func() { // both may wait for the broker; at the same time they take no longer than one
		defer close(stopped)
		c.stopRunner()
	}()
	err := c.Engine.Close()
	<-stopped
	return err
}

// stopRunner returns, to all who call it, once the controller has stopped.
func (c *withController) stopRunner() {
	c.stop.Do(func() {
		if c.stopAsking != nil {
			c.stopAsking() // what is known serves for a minute
			c.asking.Wait()
		}
		if c.runner != nil {
			c.runner.close()
		}
	})
}
