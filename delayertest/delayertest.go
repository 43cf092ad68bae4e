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
		Ordered: true, ReportsUnroutable: true, KeepsUnroutable: true, ExactTopics: true, MaxPriority: math.MaxUint8,
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

// A broker is what Delayers share.
type broker struct {
	limits delayer.Limits
	timers bool
	turn   chan struct{} // held by who delivers; a mutex would keep a bubble's time from passing

	mu        sync.Mutex
	time      time.Time // without timers
	published []delayer.Message
	waiting   []*waiting // the next due first
	tickets   map[delayer.Ticket]named
	delivered []amqp091.Delivery
	handle    func(amqp091.Delivery)
	answers   []error
}

// A waiting message.
type waiting struct {
	delayer.Message
	sealed    amqp091.Publishing
	due       time.Time
	cancelled bool
}

// New returns a Delayer.
func New(cfg Config) *Delayer {
	if cfg.Limits.Max == 0 {
		cfg.Limits = DefaultLimits()
	}
	return &Delayer{broker: &broker{
		limits: cfg.Limits, timers: cfg.Timers, turn: make(chan struct{}, 1), time: time.Now(),
		tickets: map[delayer.Ticket]named{},
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
// it is not. As with a broker, an [delayer.ErrRefused] of a message without a delay is ErrUnknown
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
