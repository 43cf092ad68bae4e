// Package brokertime learns what time it is at the broker, to a millisecond or two.
//
// AMQP tells the broker's time in whole seconds only, when a message has expired: x-death says
// when. A question is a message that expires at once. Its answer says that the broker's clock
// showed a certain second between sending and receiving, which bounds the offset of that clock to
// our monotonic one. A question that arrives just when a second is full halves the interval. So the
// first answer gives a second, about ten more a millisecond. After that a few questions every ten
// seconds make up for drift.
//
// What is promised: the broker's clock shows a time between the two that Read returns, if neither
// clock drifts by more than 200 ppm. Whether this machine's wall clock is right does not matter.
// If that clock was set or the machine was suspended, and no answer has come since, Read returns
// nothing. If the broker's clock is set, one of the next questions shows that, within some 25
// seconds, and it is logged. Until then Read returns what the clock would show if it had not been
// set. A virtual machine that was paused together with its wall clock takes that for a step of the
// broker's.
//
// Steps are not made up for, nor that others may notice one later. Those of less than some ten
// milliseconds and round trips are not noticed.
//
// In a cluster each node has a clock. A Clock learns that of the node that leads the queue
// [Shared], which is the same for all.
package brokertime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

// Config is what a Clock needs.
type Config struct {
	Backend string
	Prefix  string
	Logger  *slog.Logger
	Control *broker.Control // its connection owns the queue of the answers
	Shared  Shared          // the queue of the questions

	// Publish publishes a question, mandatory and with a confirm. It returns the errors of
	// [broker.Publisher.PublishDirect]. It is not the connection of Control, which the broker must
	// never block.
	Publish func(context.Context, broker.Publishing) error
}

// A Clock knows the broker's time. Read is safe for concurrent use. Ask and Run are not: call Ask
// before Run, or alone.
type Clock struct {
	cfg      Config
	wire     wire
	wake     pace.Signal // the time is wanted, and not known, or not well
	interval *Interval
}

// New returns a Clock that knows nothing yet.
func New(cfg Config) *Clock {
	return newClock(cfg, &shared{Shared: cfg.Shared, publish: cfg.Publish, back: broker.Returns{
		Control: cfg.Control, Name: cfg.Prefix + ".clock." + rand.Text()[:8] + ".answers", Exchange: cfg.Shared.Answers,
	}})
}

func newClock(cfg Config, w wire) *Clock {
	return &Clock{cfg: cfg, wire: w, wake: pace.NewSignal(), interval: newInterval(staleAfter)}
}

// A Due is a due time by the broker's clock, in ms since 1970. The zero value is none.
type Due int64

const latestDue = 16_725_225_600_000 // in the year 2500

// Valid reports whether a Due may have been written by a Delayer.
func (d Due) Valid() bool { return d > 0 && d <= latestDue }

// Time is what the broker's clock shows then.
func (d Due) Time() time.Time { return time.UnixMilli(int64(d)) }

// A Reading is what is known of the broker's clock at a moment.
type Reading struct {
	Earliest, Latest time.Time // what it shows is between them
}

// Read returns what is known. ok is false before the first answer, when there was none for a
// minute, and until the next one, which Run asks for at once, when this machine was suspended for a
// second or more, or its wall clock was set by as much.
func (c *Clock) Read() (r Reading, ok bool) {
	if r, ok = c.interval.Read(); !ok {
		c.wake.Set()
		return Reading{}, false
	}
	return r, true
}

// Ask asks one question.
func (c *Clock) Ask(ctx context.Context) error {
	return broker.Explain("ask for the broker's time", c.cfg.Backend, "queue "+c.cfg.Shared.Queue, c.ask(ctx))
}

func (c *Clock) ask(ctx context.Context) error {
	if err := c.wire.open(ctx); err != nil {
		return err
	}
	question := message.NewEnvelope(time.Now(), 0, "")
	sent := time.Now()
	if err := c.wire.send(ctx, question); err != nil {
		c.wire.lost()
		return err
	}
	d, err := c.answer(ctx, question.String())
	if err != nil {
		return err
	}
	received, second := time.Now(), message.LastDeath(d.Headers)
	if second.Unix() <= 0 || second.Year() >= 2200 { // to compute with it could overflow
		return fmt.Errorf("its x-death has the time %v", second)
	}
	stepped := c.interval.Learn(sent, received, second, second.Add(time.Second))
	if stepped != 0 {
		c.cfg.Logger.Warn("the broker's clock and this machine's do not agree with what was known: was one set? Asking anew",
			"backend", c.cfg.Backend, "ahead", stepped.Round(time.Millisecond))
	}
	return nil
}

// answer waits for a question to come back. Others, for which nobody waits any more, may come
// before.
func (c *Clock) answer(ctx context.Context, question string) (amqp091.Delivery, error) {
	for {
		select {
		case d, ok := <-c.wire.answers():
			if !ok {
				c.wire.lost()
				return d, amqp091.ErrClosed
			}
			if d.Headers[delayer.Header] == question {
				return d, nil
			}
		case <-ctx.Done():
			c.wire.lost()
			return amqp091.Delivery{}, context.Cause(ctx)
		}
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
		failed = err != nil
	}
}

// wait returns true when it is time for the next question, or the consumer was lost; false when ctx
// has ended.
func (c *Clock) wait(ctx context.Context, failed bool) bool {
	pause, wake := retryAfter, c.wake
	if failed {
		wake = nil
	} else {
		pause = c.pause()
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
	case <-wake:
		return c.wait(ctx, failed) // and for how long
	case _, ok := <-c.wire.answers(): // too late for its question
		if !ok {
			c.wire.lost()
		}
	}
	return true
}

// pause is the time until the next question.
func (c *Clock) pause() time.Duration {
	i := c.interval
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.instant(time.Now())
	return i.estimate.next(now) - now.mono
}

// Shared is a queue that the questions of many processes go through. Its leader dates the answers,
// so that all learn one node's clock, whichever node they are connected to. If another node becomes
// the leader, that is a step of the clock, by as much as the two differ.
type Shared struct {
	Queue         string
	Exchange, Key string // lead to the queue
	Answers       string // the exchange that it dead-letters to

	// Restore declares these again. It is called when one is missing.
	Restore func(context.Context) error
}

// Plan is what a Shared needs beside its Exchange.
func (s Shared) Plan() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: s.Answers, Kind: amqp091.ExchangeDirect}},
		Queues: []topology.Queue{{Name: s.Queue, Role: role.Clock, Args: amqp091.Table{
			"x-queue-type": string(delayer.Quorum), "x-message-ttl": int64(0), "x-dead-letter-exchange": s.Answers,
		}}},
		Bindings: []topology.Binding{{Source: s.Exchange, Key: s.Key, Target: s.Queue}},
	}
}

// A wire carries questions to the broker and receives the answers. One goroutine uses it.
type wire interface {
	open(ctx context.Context) error // makes sure that the queues and the consumer exist
	send(ctx context.Context, question message.Envelope) error
	answers() <-chan amqp091.Delivery // questions that have expired; nil before open
	lost()                            // answers was closed, or one did not come: something may have been deleted
}

// shared is a wire through a Shared. Answers come back by the second routing key of a question,
// which is the name of a queue that is exclusive to the control connection.
type shared struct {
	Shared
	publish func(context.Context, broker.Publishing) error
	back    broker.Returns
	missing bool // something is to be declared again
}

func (s *shared) open(ctx context.Context) error {
	if s.missing {
		if err := s.Restore(ctx); err != nil {
			return err
		}
		s.missing = false
	}
	err := s.back.Open(ctx)
	s.missing = broker.Code(err) == amqp091.NotFound
	return err
}

// atOnce is the TTL of a question, also in a queue that has none yet. Up to RabbitMQ 4.0 a quorum
// queue that is being declared takes messages before it has its arguments
// (rabbit_quorum_queue:start_cluster/1 in 3.10.8). A question without a TTL would stay for ever,
// and so would all behind it.
const atOnce = "0"

func (s *shared) send(ctx context.Context, question message.Envelope) error {
	msg := message.Seal(amqp091.Publishing{DeliveryMode: amqp091.Transient, Expiration: atOnce}, question, nil, s.back.Queue())
	err := s.publish(ctx, broker.Publishing{Exchange: s.Exchange, Key: s.Key, Message: msg})
	s.missing = errors.Is(err, delayer.ErrUnroutable)
	return err
}

func (s *shared) answers() <-chan amqp091.Delivery { return s.back.Messages() }

func (s *shared) lost() { s.back.Ended() }
