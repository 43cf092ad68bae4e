package binaryladder

import (
	"context"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/keeper"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// strategy implements [engine.Strategy].
type strategy struct {
	*keeper.Links[link]
	blueprint blueprint
	limits    delayer.Limits
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.blueprint.plan() }
func (s *strategy) All() topology.Plan     { return s.blueprint.all() }

// Growth implements [engine.Strategy].
func (s *strategy) Growth() message.Growth {
	b := s.blueprint
	last := link{b.ladder.levels - 1, hop{b.ladder.levels - 1, b.ladder.base() - 1}}
	g := message.Growth{
		Hops: b.ladder.levels, Keys: b.ladder.levels + 1, KeySize: len(b.key(last, 1)),
		NameSize: max(len(b.names.queue(b.ladder, last.to)), len(b.names.level(last.from))),
	}
	if b.routing == Topic {
		const hash = 22
		g.Keys, g.KeySize = 2, len(b.ladder.topicKey(0, ""))+hash
	}
	return g
}

// Leaving implements [engine.Router].
func (s *strategy) Leaving(queue string, words int) topology.Plan {
	if s.blueprint.ladder.bits > 1 { // its queues are declared on use, so some may not exist
		return s.Used()
	}
	return s.blueprint.leaving(queue, words)
}

// Enter returns the keys of the itinerary. The topic ladder needs one key into the first queue, and
// the delay as a topic key for all that follows.
func (s *strategy) Enter(ctx context.Context, m engine.Message) (engine.Entry, error) {
	b := s.blueprint
	route := itinerary(b.ladder.hops(m.Delay))
	room := len(m.Destinations)
	if b.routing == Topic {
		route, room = route[:1], room+1
	}
	keys, err := s.Keys(ctx, route, m.Words, room)
	if err != nil {
		return engine.Entry{}, err
	}
	if b.routing == Topic {
		keys = append(keys, b.ladder.topicKey(m.Delay, lastWord(m.Destinations[0].(string))))
	}
	return engine.Entry{Exchange: b.names.enter(), Keys: append(keys, m.Destinations...)}, nil
}

// itinerary lists the links of a route: into the ladder, from hop to hop, and out.
func itinerary(hops []hop) []link {
	route := make([]link, 0, len(hops)+1)
	from := outside
	for _, h := range hops {
		route = append(route, link{from, h})
		from = h.level
	}
	return append(route, link{from, hop{level: outside}})
}

// guarantees returns the Limits of a ladder of this shape.
func guarantees(b blueprint, maxPriority uint8) delayer.Limits {
	quorum := b.kind == delayer.Quorum
	return delayer.Limits{
		Max:               b.ladder.max(),
		Resolution:        b.ladder.tick,
		SurvivesRestart:   quorum,
		SurvivesCrash:     quorum,
		Replicated:        quorum,
		Ordered:           true,
		ReportsUnroutable: true,
		KeepsUnroutable:   true,
		ExactTopics:       b.routing == Source,
		MaxPriority:       maxPriority,
	}
}
