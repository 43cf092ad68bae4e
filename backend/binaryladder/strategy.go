package binaryladder

import (
	"context"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/topology"
)

// strategy implements [engine.Strategy].
type strategy struct {
	blueprint blueprint
	links     *engine.Links[link]
	limits    delayer.Limits
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.blueprint.plan() }
func (s *strategy) All() topology.Plan     { return s.blueprint.all() }
func (s *strategy) Used() topology.Plan    { return s.links.Used() }
func (s *strategy) Reset()                 { s.links.Reset() }

// Enter returns the keys of the itinerary. The topic ladder needs one key into the first queue, and the
// delay as a topic key for all that follows.
func (s *strategy) Enter(ctx context.Context, j engine.Journey) (engine.Entry, error) {
	b := s.blueprint
	way := itinerary(b.ladder.hops(j.Delay))
	room := len(j.Destinations)
	if b.routing == Topic {
		way, room = way[:1], room+1
	}
	keys, err := s.links.Keys(ctx, way, j.Words, room)
	if err != nil {
		return engine.Entry{}, err
	}
	if b.routing == Topic {
		keys = append(keys, b.ladder.topicKey(j.Delay, lastWord(j.Destinations[0].(string))))
	}
	return engine.Entry{Exchange: b.names.enter(), Keys: append(keys, j.Destinations...)}, nil
}

// itinerary is the way through the hops: in, from one to the next, and out.
func itinerary(hops []hop) []link {
	way := make([]link, 0, len(hops)+1)
	from := outside
	for _, h := range hops {
		way = append(way, link{from, h})
		from = h.level
	}
	return append(way, link{from, hop{level: outside}})
}

// guarantees says what a ladder of this shape can do.
func guarantees(l ladder, routing Routing, kind topology.QueueType, maxPriority uint8) delayer.Limits {
	return delayer.Limits{
		Max:               l.max(),
		Resolution:        l.tick,
		SurvivesRestart:   kind == topology.Quorum,
		SurvivesCrash:     kind == topology.Quorum,
		Replicated:        kind == topology.Quorum,
		Ordered:           true,
		ReportsUnroutable: true,
		KeepsUnroutable:   true,
		ExactTopics:       routing == Source,
		MaxPriority:       maxPriority,
	}
}
