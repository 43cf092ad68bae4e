//go:build !race

package simulator

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/slots"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/internal/lab/routing"
)

// TestConformance: the model passes the suite that the backends pass on a real broker. Its broker,
// its processes with their machines, and what users of processes do are those of all seeds, in the
// time of a bubble. What the engine does on a connection before that is package delayertest's here:
// it refuses, seals and reads messages.
func TestConformance(t *testing.T) {
	for _, c := range conformance.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			unable := ""
			synctest.Test(t, func(t *testing.T) {
				m := newModel()
				var running sync.WaitGroup
				defer running.Wait()
				defer close(m.over)
				running.Go(m.run)
				conformance.RunCase(t, conformance.Harness{
					Open: m.open, World: func(context.Context) (conformance.World, error) { return &around{m}, nil }, User: "guest",
					Skip: func(t *testing.T, reason string) { unable = reason; t.SkipNow() },
				}, c.Name)
				m.do(func() { require.Empty(t, m.account.problems) })
			})
			if unable != "" {
				t.Skip(unable)
			}
		})
	}
}

// A model is a world without plan. What happens in it is called for from outside, while time
// passes.
type model struct {
	mu sync.Mutex
	*world
	began   time.Time
	wake    chan struct{} // buffered: something was called for
	over    chan struct{}
	limits  delayer.Limits
	opened  int
	table   routing.Table[*sink]
	tickets map[delayer.Ticket]ticket
	numbers map[string]int // of destinations

	unroutable []conformance.Arrival
	watchers   []func(conformance.Arrival)
}

// A ticket is one that was returned.
type ticket struct {
	*record
	pass
}

// A sink is a queue of a user's.
type sink struct {
	*destination
	backlog  []conformance.Arrival
	consumer func(conformance.Arrival)
}

// newModel begins with one process at work. All clocks are that of the bubble: they are on one
// host.
func newModel() *model {
	w := &world{options: options{mutant: chosen()}, rand: rand.New(rand.NewPCG(1, 0)), wheel: wheel.Default()}
	w.plan = plan{latency: time.Millisecond, hiccup: time.Millisecond, budget: 64 << 20}
	w.account, w.clock = &account{w: w}, clock{w: w, begin: time.Now()}
	w.broker = newBroker(w)
	m := &model{
		world: w, began: time.Now(), wake: make(chan struct{}, 1), over: make(chan struct{}),
		limits: slots.New("model", w.plan.budget).Limits(),
		table:  routing.New[*sink](), tickets: map[delayer.Ticket]ticket{}, numbers: map[string]int{},
	}
	w.broker.route = m.route
	return m
}

// do lets the model come to the present, and does something there.
func (m *model) do(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.account.Events = 0 // a case may have many
	m.runUntil(time.Since(m.began))
	f()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run lets time pass until the case is over.
func (m *model) run() {
	for {
		m.mu.Lock()
		m.runUntil(time.Since(m.began))
		wait := m.idle()
		m.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-m.wake:
		case <-m.over:
			return
		}
	}
}

// idle is how long nothing happens unless it is called for.
func (m *model) idle() time.Duration {
	const year = 365 * day
	next := m.now + year
	if len(m.events) > 0 {
		next = m.events[0].at
	}
	if m.now-m.busy > time.Second && len(m.processes) > 0 && len(m.account.problems) == 0 {
		if until := m.quiet(next - 30*time.Second); until > m.now {
			return until - m.now
		}
	}
	for _, p := range m.processes {
		if p.ticks() {
			next = min(next, p.nextTick)
		}
	}
	return max(next-m.now, time.Microsecond)
}

// await waits until something is so.
func (m *model) await(ctx context.Context, is func() bool) error {
	for {
		so := false
		m.do(func() { so = is() })
		if so {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// route is where a message goes that is delivered.
func (m *model) route(it *item) (to []*destination) {
	p := &it.of.payload
	if !m.table.Exists(p.Exchange, p.RoutingKey) {
		a := conformance.Arrival{Delivery: *p, At: time.Now()}
		m.unroutable = append(m.unroutable, a)
		for _, watch := range m.watchers {
			watch(a)
		}
		return nil
	}
	for _, s := range m.table.Reached(p.Exchange, p.RoutingKey, p.Headers) {
		to = append(to, s.destination)
	}
	return to
}

// arrive hands a message to the consumer of a queue.
func (s *sink) arrive(p amqp091.Delivery) {
	p.Headers = maps.Clone(p.Headers)
	delete(p.Headers, "BCC")
	a := conformance.Arrival{Delivery: p, At: time.Now()}
	if s.consumer == nil {
		s.backlog = append(s.backlog, a)
		return
	}
	s.consumer(a)
}
