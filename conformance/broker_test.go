package conformance_test

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/delayertest"
)

// A broker adds to package delayertest exchanges and queues, to which messages are routed, and
// connections that can be lost.
type broker struct {
	limits  delayer.Limits
	stalls  bool                 // an unroutable message blocks those behind it: a fault
	drops   bool                 // it keeps no unroutable message: a fault
	delayed *delayertest.Delayer // the first that is opened; it stays open
	checks  *delayertest.Delayer // refuses what is invalid, and delivers nothing

	mu         sync.Mutex
	table      table
	due        []amqp091.Delivery // but not routed yet
	forgotten  time.Time          // messages published before are lost
	unroutable []conformance.Arrival
	watchers   []func(conformance.Arrival)
	up         chan struct{} // closed while the broker is up
	cut        chan struct{} // closed, and replaced, when connections are cut

	sending, confirming atomic.Int64 // messages, and confirms, that are on their way
}

type queue struct {
	full     bool          // it refuses messages
	stuck    chan struct{} // closed when it confirms and delivers again; nil if it always does
	backlog  []conformance.Arrival
	consumer func(conformance.Arrival)
}

func idealLimits() delayer.Limits {
	l := delayertest.DefaultLimits()
	l.Max, l.Resolution, l.CancelBefore = 24*time.Hour, 10*time.Millisecond, 400*time.Millisecond
	return l
}

func newBroker(limits delayer.Limits) *broker {
	b := &broker{
		limits: limits, table: table{map[string]*queue{}, map[string]*exchange{}},
		delayed: delayertest.New(delayertest.Config{Limits: limits, Timers: true}),
		checks:  delayertest.New(delayertest.Config{Limits: limits}),
		up:      make(chan struct{}), cut: make(chan struct{}),
	}
	close(b.up)
	b.delayed.Handle(b.arrive)
	return b
}

func (b *broker) cutAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.cut)
	b.cut = make(chan struct{})
}

func (b *broker) isUp() bool {
	select {
	case <-b.up:
		return true
	default:
		return false
	}
}

// forget loses all waiting messages: a fault.
func (b *broker) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgotten = time.Now()
}

// hasten delivers all waiting messages at once: a fault.
func (b *broker) hasten() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.delayed.Waiting() {
		b.routePlain(m)
	}
}

func (b *broker) arrive(m amqp091.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = append(b.due, m)
	b.release()
}

func (b *broker) release() {
	for len(b.due) > 0 && b.isUp() {
		m := b.due[0]
		e, _ := delayer.ParseHeader(m.Headers)
		switch {
		case e.Due.Add(-e.Delay).Before(b.forgotten):
		case b.table.exists(m.Exchange, m.RoutingKey):
			if e.Delay > 0 {
				m.Headers["x-death"] = []any{amqp091.Table{"queue": "memory", "count": int64(1)}}
			}
			b.route(m)
		case b.stalls:
			return
		case !b.drops:
			a := arrival(m)
			b.unroutable = append(b.unroutable, a)
			for _, watch := range b.watchers {
				watch(a)
			}
		}
		b.due = b.due[1:]
	}
}

// routePlain routes a message that no Delayer has published.
func (b *broker) routePlain(m delayer.Message) {
	plain := delayertest.New(delayertest.Config{})
	_ = plain.Publish(context.Background(), m.Exchange, m.Key, 0, m.Publishing) // the suite's are valid
	for _, m := range plain.Advance(0) {
		delete(m.Headers, delayer.Header)
		b.route(m)
	}
}

func (b *broker) route(m amqp091.Delivery) {
	reached := b.table.reached(m.Exchange, m.RoutingKey, m.Headers)
	delete(m.Headers, "BCC")
	for _, q := range reached {
		if q.full {
			continue
		} else if q.consumer == nil || q.isStuck() {
			q.backlog = append(q.backlog, arrival(m))
		} else {
			q.consumer(arrival(m))
		}
	}
}

func (q *queue) isStuck() bool {
	select {
	case <-q.stuck:
		return false
	default:
		return q.stuck != nil
	}
}

// arrival returns a copy for one consumer, with headers of its own.
func arrival(m amqp091.Delivery) conformance.Arrival {
	m.Headers = maps.Clone(m.Headers)
	return conformance.Arrival{At: time.Now(), Delivery: m}
}
