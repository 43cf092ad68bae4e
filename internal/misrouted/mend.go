package misrouted

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/delivery"
)

// mendEvery is the least time between two repairs of the same bindings: thousands of messages may
// lack them, or have a destination that is gone.
const mendEvery = 5 * time.Second

// A place is a waiting queue whose bindings for keys of so many words were missing.
type place struct {
	queue string
	words int
}

// repairs remembers when bindings were last made.
type repairs struct {
	mu   sync.Mutex
	last map[place]time.Time
}

// due reports whether to make the bindings of a place now.
func (r *repairs) due(p place, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.last[p]; ok && now.Sub(at) < mendEvery {
		return false
	}
	if r.last == nil || len(r.last) > 1000 { // bounds the memory; queues have few neighbours
		r.last = map[place]time.Time{}
	}
	r.last[p] = now
	return true
}

// mend makes the bindings that a message has missed. If that fails the message is sent on
// nevertheless; the next one tries again.
func (m *Mover) mend(ctx context.Context, d *amqp091.Delivery) {
	p := place{lastQueue(d.Headers), delivery.Words(d.RoutingKey)}
	if p.queue == "" || m.cfg.Mend == nil || !m.repairs.due(p, time.Now()) {
		return
	}
	if err := m.cfg.Mend(ctx, p.queue, d.RoutingKey); err != nil {
		m.failed("cannot make the bindings that a message has missed", err)
	}
}

// lastQueue returns the queue where the message expired last: the newest entry of x-death is first.
func lastQueue(headers amqp091.Table) string {
	deaths, _ := headers["x-death"].([]any)
	if len(deaths) == 0 {
		return ""
	}
	death, _ := deaths[0].(amqp091.Table)
	queue, _ := death["queue"].(string)
	return queue
}
