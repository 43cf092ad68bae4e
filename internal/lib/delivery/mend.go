package delivery

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// mendEvery is the least time between two repairs of the same bindings: thousands of messages may
// lack them.
const mendEvery = 5 * time.Second

// A gap is what bindings were missing from: a waiting queue, or the way to a destination, for keys
// of so many words; or the stage, if it names neither.
type gap struct {
	queue       string
	destination string // as Place names it
	words       int
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
	if r.last == nil || len(r.last) > 1000 { // bounds the memory
		r.last = map[gap]time.Time{}
	}
	r.last[g] = now
	return true
}

// mend makes the bindings by which a message should have got from its last waiting queue to its
// destination. Another process that declares our exchanges again does not know which bindings this
// one has made on use. A misrouted message shows which are missing: its own. Those of other
// destinations may be there, and to make thousands again would slow all who publish. If mend fails,
// the next message tries again.
func (m *Mover) mend(ctx context.Context, l *letter) {
	queue, words := lastQueue(l.Headers), message.Words(l.RoutingKey)
	if queue == "" {
		return
	}
	var err error
	if l.envelope.Exchange != "" && m.repairs.due(gap{}, time.Now()) {
		err = m.cfg.Restore(ctx, topology.Plan{Bindings: m.stage.Plan().Bindings})
	}
	if err == nil && m.cfg.Leaving != nil && m.repairs.due(gap{queue: queue, words: words}, time.Now()) {
		err = m.cfg.Restore(ctx, m.cfg.Leaving(queue, words))
	}
	if err == nil && m.repairs.due(gap{destination: l.place(), words: words}, time.Now()) {
		err = m.cfg.Destinations.Mend(ctx, l.envelope.Exchange, l.RoutingKey)
	}
	if err != nil {
		m.failed("cannot make the bindings that a message has missed", err)
	}
}

// lastQueue returns the queue where the message expired last: the newest entry of x-death is first.
func lastQueue(headers amqp091.Table) string {
	if deaths := message.Deaths(headers); len(deaths) > 0 {
		return deaths[0].Queue
	}
	return ""
}
