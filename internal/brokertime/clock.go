// Package brokertime learns what time it is at the broker, to a millisecond or two.
//
// AMQP tells the broker's time in whole seconds only: a message that expires at once is
// dead-lettered, and x-death says when. A question is such a message. Its answer says that the
// broker's clock showed a certain second at some moment between sending and receiving, which bounds
// the offset of that clock to our monotonic one. A question that arrives just when a second is
// full halves the interval. So the first answer gives a second, about ten more a millisecond. After
// that a few questions every five seconds make up for drift.
//
// What is promised: the broker's clock shows a time within ± the uncertainty of the one returned,
// if neither clock drifts by more than 200 ppm. Whether this machine's wall clock is right, is set, or
// the machine is suspended does not matter. If the broker's clock is set, that is noticed by one of
// the next questions, within about ten seconds, and logged. Until then what is returned is wrong by
// as much. So it is after a virtual machine was paused together with its wall clock.
//
// In a cluster each node has a clock. A Clock learns that of the node that its Control is connected
// to, because the queue is there. [Nodes] combines the clocks of several nodes; each needs a Clock
// with connections to that node's own address. Behind one address of a load balancer the other
// nodes' clocks cannot be asked for: run NTP.
package brokertime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/instant"
	"github.com/delayer-go/delayer/internal/message"
)

// Config is what a Clock needs.
type Config struct {
	Backend string
	Prefix  string
	Logger  *slog.Logger
	Control *broker.Control // its connection owns the queues

	// Publish publishes a question, mandatory and with a confirm. It returns the errors of
	// [broker.Publisher.PublishDirect]. It is not the connection of Control, which the broker must
	// never block.
	Publish func(context.Context, broker.Publishing) error
}

// A Clock knows the broker's time. Now is safe for concurrent use. Ask and Run are not: call Ask
// before Run, or alone.
type Clock struct {
	cfg   Config
	wire  wire
	epoch time.Time

	mu       sync.Mutex
	estimate estimate
}

// New returns a Clock that knows nothing yet.
func New(cfg Config) *Clock { return newClock(cfg, newQueues(cfg)) }

func newClock(cfg Config, w wire) *Clock { return &Clock{cfg: cfg, wire: w, epoch: time.Now()} }

// Now returns what the broker's clock shows, within ± uncertainty. ok is false while nothing is
// known, which is before the first answer, and when there was none for a minute.
func (c *Clock) Now() (t time.Time, uncertainty time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.instant()
	b, ok := c.estimate.now(now)
	if !ok {
		return time.Time{}, 0, false
	}
	return time.Unix(0, int64(now.Mono+b.middle())), b.width()/2 + 1, true
}

func (c *Clock) instant() instant.Instant { return instant.At(time.Now(), c.epoch) }

// Ask asks one question. After the first answer the time is known within ±0.5 s plus half of the
// round trip.
func (c *Clock) Ask(ctx context.Context) error {
	err := broker.Explain("ask for the broker's time", c.cfg.Backend, "queue "+c.wire.name(), c.ask(ctx))
	var known *delayer.Error
	if errors.As(err, &known) && errors.Is(known, delayer.ErrAccess) {
		known.Hint = fmt.Sprintf("the user must configure, write and read names that begin with %q", namePrefix(c.cfg.Prefix))
	}
	return err
}

func (c *Clock) ask(ctx context.Context) error {
	anew, err := c.wire.open(ctx)
	if err != nil {
		return err
	}
	if anew {
		c.mu.Lock()
		c.estimate.forget()
		c.mu.Unlock()
	}
	probe := message.NewEnvelope(time.Now(), 0, "")
	a := answer{sent: c.instant()}
	if err := c.wire.send(ctx, probe); err != nil {
		c.wire.suspect()
		return err
	}
	d, err := c.answer(ctx, probe.String())
	if err != nil {
		return err
	}
	a.received = c.instant()
	if a.second = message.LastDeath(d.Headers); !sane(a.second) {
		return fmt.Errorf("its x-death has the time %v", a.second)
	}
	c.learn(a)
	return nil
}

// sane reports whether computing with a time does not overflow.
func sane(t time.Time) bool {
	return t.After(time.Unix(0, 0)) && t.Year() < 2200
}

// answer waits for a probe to come back. Others, for which nobody waits any more, may come before.
func (c *Clock) answer(ctx context.Context, probe string) (amqp091.Delivery, error) {
	for {
		select {
		case d, ok := <-c.wire.answers():
			if !ok {
				c.wire.ended()
				return d, amqp091.ErrClosed
			}
			if d.Headers[delayer.Header] == probe {
				return d, nil
			}
		case <-ctx.Done():
			c.wire.suspect()
			return amqp091.Delivery{}, context.Cause(ctx)
		}
	}
}

func (c *Clock) learn(a answer) {
	c.mu.Lock()
	stepped := c.estimate.learn(a)
	c.mu.Unlock()
	if stepped != 0 {
		c.cfg.Logger.Warn("the broker's clock and this machine's do not agree with what was known: was one set? Asking anew",
			"backend", c.cfg.Backend, "ahead", stepped.Round(time.Millisecond))
	}
}

const (
	askTimeout = 5 * time.Second // for one question
	retryAfter = 5 * time.Second // after a question without an answer
)

// Run asks until ctx ends. If the connection is lost it starts over.
func (c *Clock) Run(ctx context.Context) {
	failed := false
	for {
		if !c.wait(ctx, failed) {
			return
		}
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		err := c.Ask(asking)
		cancel()
		if err != nil && !failed && ctx.Err() == nil {
			c.cfg.Logger.Warn("cannot ask for the broker's time", "error", err)
		}
		if err == nil && failed {
			c.cfg.Logger.Info("the broker tells its time again", "backend", c.cfg.Backend)
		}
		failed = err != nil
	}
}

// wait returns true when it is time for the next question, or the consumer was lost; false when ctx
// has ended.
func (c *Clock) wait(ctx context.Context, failed bool) bool {
	pause := retryAfter
	if !failed {
		c.mu.Lock()
		now := c.instant()
		pause = c.estimate.next(now) - now.Mono
		c.mu.Unlock()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case _, ok := <-c.wire.answers(): // too late for its question
			if !ok {
				c.wire.ended()
				return true
			}
		}
	}
}
