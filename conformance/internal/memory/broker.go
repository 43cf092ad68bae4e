// Package memory has a broker, a World and a Delayer in memory. They are correct: the conformance
// suite is tested with them.
package memory

import (
	"container/heap"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/conformance"
)

// A Broker routes messages to queues, at once or later.
type Broker struct {
	limits delayer.Limits

	// Stalls makes an unroutable message block all behind it, as no broker should.
	Stalls bool

	mu         sync.Mutex
	exchanges  map[string]*exchange
	queues     map[string]*queue
	waiting    waiting
	cancelled  map[int64]bool
	stored     int // orders messages that are due at the same time
	unroutable []conformance.Arrival
	watchers   []func(conformance.Arrival)
	up         chan struct{} // closed while the broker is up
	cut        chan struct{} // closed, and replaced, when connections are cut

	sending, confirming atomic.Int64 // messages, and confirms, that are on their way
}

// A queue holds what has no consumer yet, or hands it on.
type queue struct {
	backlog  []conformance.Arrival
	consumer func(conformance.Arrival)
}

// A message waits for its destination.
type message struct {
	exchange, key string
	msg           amqp091.Publishing
	due           time.Time
	order         int
	id            int64 // of a scheduled message
}

// DefaultLimits are those of an ideal backend.
func DefaultLimits() delayer.Limits {
	return delayer.Limits{
		Max: 24 * time.Hour, Resolution: 10 * time.Millisecond, SurvivesRestart: true, Ordered: true,
		ReportsUnroutable: true, KeepsUnroutable: true, ExactTopics: true, MaxPriority: 255, CancelBefore: 400 * time.Millisecond,
	}
}

// NewBroker returns a broker whose Delayers have these limits.
func NewBroker(limits delayer.Limits) *Broker {
	b := &Broker{
		limits: limits, exchanges: map[string]*exchange{}, queues: map[string]*queue{}, cancelled: map[int64]bool{},
		up: make(chan struct{}), cut: make(chan struct{}),
	}
	close(b.up)
	return b
}

// connection returns what a Publish watches: a channel that is closed while the broker is up, and
// one that is closed when connections are cut.
func (b *Broker) connection() (up, cut <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.up, b.cut
}

// Cut ends all connections.
func (b *Broker) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.cut)
	b.cut = make(chan struct{})
}

// busy waits until a message and a confirm are on their way, if that is soon.
func (b *Broker) busy() {
	const soon = 100 * time.Millisecond
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(trip / 20) {
		if b.sending.Load() > 0 && b.confirming.Load() > 0 {
			return
		}
	}
}

// Restart is down for a while.
func (b *Broker) Restart(pause time.Duration) {
	b.mu.Lock()
	b.up = make(chan struct{})
	b.mu.Unlock()
	b.Cut()
	time.Sleep(pause)
	b.mu.Lock()
	close(b.up)
	b.mu.Unlock()
	b.release()
}

func (b *Broker) isUp() bool {
	select {
	case <-b.up:
		return true
	default:
		return false
	}
}

// exists says whether a destination is there.
func (b *Broker) exists(exchange, key string) bool {
	if exchange == "" {
		return b.queues[key] != nil
	}
	return b.exchanges[exchange] != nil
}

// wait keeps m until it is due.
func (b *Broker) wait(m message, delay time.Duration) {
	m.due = time.Now().Add(delay)
	m.order = b.stored
	b.stored++
	heap.Push(&b.waiting, m)
	time.AfterFunc(delay, b.release)
}

// Forget drops all that waits, as no broker should.
func (b *Broker) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = nil
}

// Hasten makes all that waits due at once, as no broker should.
func (b *Broker) Hasten() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.waiting {
		b.waiting[i].due = time.Now()
	}
	heap.Init(&b.waiting)
}

// release routes all that is due.
func (b *Broker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.waiting) > 0 && b.isUp() && !b.waiting[0].due.After(time.Now()) {
		m := heap.Pop(&b.waiting).(message)
		if b.exists(m.exchange, m.key) {
			m.msg.Headers["x-death"] = []any{amqp091.Table{"queue": "memory", "count": int64(1)}}
			b.route(m.exchange, m.key, m.msg)
			continue
		}
		if b.Stalls {
			heap.Push(&b.waiting, m)
			return
		}
		if b.limits.KeepsUnroutable {
			a := arrival(m.exchange, m.key, m.msg)
			b.unroutable = append(b.unroutable, a)
			for _, watch := range b.watchers {
				watch(a)
			}
		}
	}
}

// route delivers msg to the queues of its keys, and returns how many there are.
func (b *Broker) route(name, key string, msg amqp091.Publishing) int {
	keys := append([]string{key}, carbonCopies(msg.Headers)...)
	reached := map[string]bool{}
	for _, k := range keys {
		if name == "" {
			if b.queues[k] != nil {
				reached[k] = true
			}
		} else if e := b.exchanges[name]; e != nil {
			e.match(k, msg.Headers, reached)
		}
	}
	delete(msg.Headers, "BCC")
	for _, q := range slices.Sorted(maps.Keys(reached)) {
		b.enqueue(q, arrival(name, key, msg))
	}
	return len(reached)
}

func (b *Broker) enqueue(name string, a conformance.Arrival) {
	q := b.queues[name]
	if q == nil {
		return // Deleted while the binding is still there.
	}
	if q.consumer == nil {
		q.backlog = append(q.backlog, a)
		return
	}
	q.consumer(a)
}

// carbonCopies returns the keys in CC and BCC.
func carbonCopies(headers amqp091.Table) []string {
	var keys []string
	for _, name := range []string{"CC", "BCC"} {
		list, _ := headers[name].([]any)
		for _, k := range list {
			keys = append(keys, k.(string))
		}
	}
	return keys
}

// waiting is a heap, the next due first.
type waiting []message

func (w waiting) Len() int      { return len(w) }
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w waiting) Less(i, j int) bool {
	if w[i].due.Equal(w[j].due) {
		return w[i].order < w[j].order
	}
	return w[i].due.Before(w[j].due)
}
func (w *waiting) Push(m any) { *w = append(*w, m.(message)) }
func (w *waiting) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
