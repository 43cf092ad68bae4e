package ttl

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/topology"
)

// outside stands for no step: where messages come from and go to.
const outside = -1

// A link is one part of a route: from a step's exchange to a queue. From outside leads to the first
// queue, to outside leads to the delivery exchange.
type link struct{ from, to int16 }

// A strategy declares each link when it is first used. There may be thousands, because our routing
// keys have as many words as the user's (see message.Words).
type strategy struct {
	queues    Queues
	declare   func(context.Context, topology.Plan) error
	declaring chan struct{}
	ready     atomic.Pointer[map[edge]any] // the routing keys of those that are declared; never changed

	mu   sync.Mutex
	used map[edge]any // all that were ever declared, also before a Reset
}

// An edge is a link for keys of a certain number of words.
type edge struct {
	link
	words int
}

func newStrategy(q Queues, declare func(context.Context, topology.Plan) error) *strategy {
	s := &strategy{queues: q, declare: declare, declaring: make(chan struct{}, 1), used: map[edge]any{}}
	const gone = false
	s.Reset(gone)
	return s
}

// Reset forgets which links are declared: the broker may have lost them.
func (s *strategy) Reset(bool) { s.ready.Store(&map[edge]any{}) }

// keys returns the routing keys of the links of a route, in order, with room for more keys. It
// first declares the links that are not declared yet.
func (s *strategy) keys(ctx context.Context, route []link, words, room int) ([]any, error) {
	ready := *s.ready.Load()
	keys := make([]any, 0, len(route)+room)
	for _, k := range route {
		key := ready[edge{k, words}]
		if key == nil {
			var err error
			if ready, err = s.prepare(ctx, route, words); err != nil {
				return nil, err
			}
			key = ready[edge{k, words}]
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func (s *strategy) prepare(ctx context.Context, route []link, words int) (map[edge]any, error) {
	select {
	case s.declaring <- struct{}{}:
		defer func() { <-s.declaring }()
	case <-ctx.Done():
		return nil, broker.Explain("publish", s.queues.Backend, "", context.Cause(ctx))
	}
	before := s.ready.Load()
	ready := maps.Clone(*before)
	var plan topology.Plan
	for _, k := range route {
		if e := (edge{k, words}); ready[e] == nil {
			ready[e] = s.queues.key(k, words)
			plan.Bindings = append(plan.Bindings, s.queues.binding(k, words))
		}
	}
	if len(plan.Bindings) == 0 {
		return ready, nil
	}
	if err := s.declare(ctx, plan); err != nil {
		return nil, err
	}
	s.ready.CompareAndSwap(before, &ready) // unless there was a Reset: then the next message declares again
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.used, ready)
	return ready, nil
}

// Used lists the objects of all links that were ever used: messages may be waiting for them.
func (s *strategy) Used() topology.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	var plan topology.Plan
	for e := range s.used {
		plan.Bindings = append(plan.Bindings, s.queues.binding(e.link, e.words))
	}
	return plan
}
