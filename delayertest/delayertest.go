// Package delayertest has a Delayer in memory, for the unit tests of programs that use one: no
// broker, and no waiting. It passes the conformance suite, as the backends do.
//
// What was published is in [Delayer.Published]. Time stands still until the test moves it with
// [Delayer.Advance], which returns the messages that came due; in a bubble of testing/synctest it
// is the bubble's time ([Config].Timers). [Delayer.FailNext] makes calls fail.
//
// Every destination exists. Nothing is routed: a message arrives once, with the exchange and the
// routing key that it was published to. Bindings, CC and BCC play no part; a test of these needs a
// broker.
package delayertest

import (
	"math"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

const name = "delayertest"

// A Config says what kind of Delayer a test needs. The zero Config is one that can do all.
type Config struct {
	// Limits are what the Delayer can do, and it keeps to them: it refuses, rounds up to tiers, and
	// cannot cancel where CancelBefore is 0. Default, if Max is 0: DefaultLimits.
	Limits delayer.Limits

	// Timers makes messages come due by themselves, as the time of package time passes. It is meant
	// for a bubble of testing/synctest, in which New must then be called. Default: the Delayer has
	// a clock of its own, which only Advance moves.
	Timers bool
}

// DefaultLimits returns limits with which everything is possible: delays up to ten years to the
// millisecond, all priorities, and a message can be cancelled until one second before it is due.
func DefaultLimits() delayer.Limits {
	return delayer.Limits{
		Max: 10 * 365 * 24 * time.Hour, Resolution: time.Millisecond, SurvivesRestart: true, SurvivesCrash: true,
		Ordered: true, ExactTopics: true, MaxPriority: math.MaxUint8,
		CancelBefore: time.Second,
	}
}

// A Delayer keeps messages in memory until they are due. It has no goroutine, and its methods are
// safe for concurrent use.
type Delayer struct {
	*broker
	closed bool // with the broker's mu
}

var _ delayer.Delayer = (*Delayer)(nil)

type broker struct {
	limits delayer.Limits
	timers bool
	turn   chan struct{} // held by who delivers; a mutex would keep a bubble's time from passing

	mu        sync.Mutex
	time      time.Time // without timers
	published []delayer.Message
	waiting   []*waiting // the next due first
	messages  map[delayer.Ticket]named
	delivered []amqp091.Delivery
	handle    func(amqp091.Delivery)
	answers   []error
}

type waiting struct {
	delayer.Message
	sealed    amqp091.Publishing
	due       time.Time
	stored    bool
	cancelled bool
}

// New returns a Delayer.
func New(cfg Config) *Delayer {
	if cfg.Limits.Max == 0 {
		cfg.Limits = DefaultLimits()
	}
	return &Delayer{broker: &broker{
		limits: cfg.Limits, timers: cfg.Timers, turn: make(chan struct{}, 1), time: time.Now(),
		messages: map[delayer.Ticket]named{},
	}}
}

// Open returns another Delayer for the same messages, as a second process has, or the same one when
// it starts again after Close.
func (d *Delayer) Open() *Delayer { return &Delayer{broker: d.broker} }

// Published returns all messages that were stored, in their order and as they were given: also
// those that were delivered or cancelled since, and none that was refused.
func (d *Delayer) Published() []delayer.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.published)
}

// Waiting returns the messages that are not delivered yet, the next due first. The Delay of each is
// what remains of it.
func (d *Delayer) Waiting() []delayer.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []delayer.Message
	for _, w := range d.waiting {
		m := w.Message
		m.Delay = w.due.Sub(d.now())
		list = append(list, m)
	}
	return list
}

// FailNext sets the answers to the next calls that would send something, one each: a kind of error,
// such as [delayer.ErrRefused], or nil for a call that succeeds. A message of PublishBatch counts
// as a call. With [delayer.ErrUnknown] the message is stored, or the call done; with any other kind
// it is not. As with a broker, a [delayer.ErrRefused] of a message without a delay is ErrUnknown
// too.
func (d *Delayer) FailNext(kinds ...error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = append(d.answers, kinds...)
}

// Limits implements [delayer.Delayer].
func (d *Delayer) Limits() delayer.Limits { return d.limits }

// Close implements [delayer.Delayer]: this Delayer takes no more messages. Those that wait still
// come due, and the test can ask for all that it could before.
func (d *Delayer) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

// Handle makes f receive every message that comes due from now on, one after the other. With
// [Config].Timers it is called in a goroutine of its own, without them by Advance, which returns the
// messages too. f may publish; it must not call Advance.
func (d *Delayer) Handle(f func(amqp091.Delivery)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handle = f
}

// Advance moves the time by a duration, and returns the messages that came due in it, in the order
// of their due times. Those without a delay come due with Advance(0). While a handler receives a
// message, the time is that at which the message was due: what the handler publishes comes due in
// the same call, if the duration is long enough.
//
// With [Config].Timers it sleeps. A negative duration panics.
func (d *Delayer) Advance(by time.Duration) []amqp091.Delivery {
	if by < 0 {
		panic("delayertest: Advance by a negative duration")
	}
	d.mu.Lock()
	before := len(d.delivered)
	d.mu.Unlock()
	if d.timers {
		time.Sleep(by)
	}
	d.deliver(by)
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.delivered[before:])
}

// Now returns the time by the clock of the Delayer, for a program that can be given a clock. It
// begins at the time of New.
func (d *Delayer) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now()
}

func (b *broker) now() time.Time {
	if b.timers {
		return time.Now()
	}
	return b.time
}

// deliver delivers what is due until by from now, or with timers until now.
func (b *broker) deliver(by time.Duration) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	b.mu.Lock()
	end := b.time.Add(by)
	b.mu.Unlock()
	for {
		b.mu.Lock()
		if b.timers {
			end = time.Now()
		}
		if len(b.waiting) == 0 || b.waiting[0].due.After(end) {
			b.time = end
			b.mu.Unlock()
			return
		}
		w := b.waiting[0]
		b.waiting = b.waiting[1:]
		if w.due.After(b.time) {
			b.time = w.due
		}
		m := w.delivery()
		m.DeliveryTag = uint64(len(b.delivered)) + 1
		b.delivered = append(b.delivered, m)
		handle := b.handle
		b.mu.Unlock()
		if handle != nil {
			handle(m)
		}
	}
}

func (w *waiting) delivery() amqp091.Delivery {
	m := w.sealed
	return amqp091.Delivery{
		Acknowledger: accepting{}, Headers: m.Headers, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding,
		DeliveryMode: m.DeliveryMode, Priority: m.Priority, CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo,
		MessageId: m.MessageId, Timestamp: asRead(m.Timestamp).(time.Time), Type: m.Type, UserId: m.UserId, AppId: m.AppId,
		Exchange: w.Exchange, RoutingKey: w.Key, Body: m.Body,
	}
}

// accepting lets a handler acknowledge or reject, and does nothing.
type accepting struct{}

func (accepting) Ack(uint64, bool) error        { return nil }
func (accepting) Nack(uint64, bool, bool) error { return nil }
func (accepting) Reject(uint64, bool) error     { return nil }

// copied returns a header value with memory of its own, whose parts went through as.
func copied(v any, as func(any) any) any {
	switch v := v.(type) {
	case amqp091.Table:
		if v == nil {
			return v
		}
		c := make(amqp091.Table, len(v))
		for name, value := range v {
			c[name] = copied(value, as)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = copied(v[i], as)
		}
		return c
	case []byte:
		return slices.Clone(v)
	}
	return as(v)
}

// asRead returns a header value as amqp091-go reads it from the wire.
func asRead(v any) any {
	switch v := v.(type) {
	case int:
		if v > math.MaxInt32 || v < math.MinInt32 {
			return int64(v)
		}
		return int32(v)
	case time.Time:
		if v.IsZero() {
			return v
		}
		return time.Unix(v.Unix(), 0)
	}
	return v
}
