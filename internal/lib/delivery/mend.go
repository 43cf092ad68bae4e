package delivery

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/message"
)

// mendEvery is the least time between two repairs of the same bindings: thousands of messages may
// lack them, or have a destination that is gone.
const mendEvery = 5 * time.Second

// A gap is a waiting queue whose bindings for keys of so many words were missing.
type gap struct {
	queue string
	words int
}

// repairs remembers when bindings were last made.
type repairs struct {
	mu   sync.Mutex
	last map[gap]time.Time
}

// due reports whether to make the bindings of a gap now.
func (r *repairs) due(g gap, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.last[g]; ok && now.Sub(at) < mendEvery {
		return false
	}
	if r.last == nil || len(r.last) > 1000 { // bounds the memory; queues have few neighbours
		r.last = map[gap]time.Time{}
	}
	r.last[g] = now
	return true
}

// mend makes the bindings by which a message should have left a waiting queue. Another process that
// declares our exchanges again does not know which bindings this one has made on use. A misrouted
// message shows which are missing. If that fails the message is sent on nevertheless; the next one
// tries again.
func (m *Mover) mend(ctx context.Context, d *amqp091.Delivery) {
	g := gap{lastQueue(d.Headers), message.Words(d.RoutingKey)}
	if g.queue == "" || !m.repairs.due(g, time.Now()) {
		return
	}
	var err error
	if m.cfg.Leaving != nil {
		err = m.cfg.Restore(ctx, m.cfg.Leaving(g.queue, g.words))
	}
	if err == nil {
		err = m.cfg.Destinations.Rebind(ctx)
	}
	if err != nil {
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
