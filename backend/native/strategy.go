package native

import (
	"context"
	"hash/fnv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/ttl"
	"github.com/delayer-go/delayer/topology"
)

// strategy is the [engine.Strategy] of native queues.
type strategy struct {
	names
	queues int
	prover *prover // set by Open
}

func (s *strategy) Limits() delayer.Limits {
	l := ttl.Guarantees(delayer.Quorum)
	l.Max, l.Resolution = objects.MaxTTL, time.Millisecond
	return l
}

func (s *strategy) Growth() message.Growth {
	return message.Growth{
		Hops: 1, Keys: 1, KeySize: len(newGate(nil, s.queues).keys[s.queues-1]), NameSize: len(s.wait(s.queues)),
		HeaderSize: 1 + len(message.NativeDelay) + 9, // an integer of 64 bits with its type
	}
}

// Enter implements [engine.Strategy]. The messages of a destination go to one queue: the engine
// promises their order.
func (s *strategy) Enter(ctx context.Context, m engine.Wait) (engine.Entry, error) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(message.Unpad(m.Destinations[0].(string))))
	queue := int(hash.Sum32() % uint32(s.queues)) //nolint:gosec // at most mostQueues
	due, err := s.prover.due(ctx, queue, m)
	if err != nil {
		return engine.Entry{}, err
	}
	g := s.prover.gate()
	return engine.Entry{
		Exchange: s.enter(), Keys: append([]any{message.Pad(g.keys[queue], m.Words)}, m.Destinations...),
		Headers: amqp091.Table{message.NativeDelay: due}, Proof: pass{gate: g, queue: queue},
	}, nil
}

// Reset implements [keeper.OnUse]: if something was deleted, the queues may be others. A lost
// connection says nothing of them.
func (s *strategy) Reset(gone bool) {
	if gone {
		s.prover.reset()
	}
}

// Used implements [keeper.OnUse]. No message that waits needs a gate.
func (s *strategy) Used() topology.Plan { return topology.Plan{} }
