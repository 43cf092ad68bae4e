package binaryladder

import (
	"context"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// strategy implements [engine.Strategy].
type strategy struct {
	*keeper.Links[link]
	blueprint blueprint
	enter     string // the exchange that messages are published to
	limits    delayer.Limits
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.blueprint.plan() }

// Growth implements [engine.Strategy].
func (s *strategy) Growth() message.Growth {
	b := s.blueprint
	longest := 0 // a step's name
	for _, step := range b.ladder.steps {
		longest = max(longest, len(objects.DurationName(step)))
	}
	g := message.Growth{
		Hops: b.ladder.hops, Keys: b.ladder.hops + 1, KeySize: len(b.key(link{outside, outside}, 1)) + 2*longest,
		NameSize: len(b.names.queue(0)) + longest,
	}
	if b.routing == Topic {
		const hash = 22
		g.Keys, g.KeySize = 2, len(b.ladder.topicKey(0, ""))+hash
	}
	return g
}

// Leaving implements [engine.Router].
func (s *strategy) Leaving(queue string, words int) topology.Plan {
	return s.blueprint.leaving(queue, words)
}

// Enter returns the keys of the route. The topic ladder needs one key into the first queue, and the
// delay as a topic key for all that follows.
func (s *strategy) Enter(ctx context.Context, m engine.Wait) (engine.Entry, error) {
	const most = 32 // of nearly all plans: these are kept on the stack
	var steps [most]int16
	var links [most + 1]link
	b := s.blueprint
	route := route(links[:0], b.ladder.plan(steps[:0], m.Delay))
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
	return engine.Entry{Exchange: s.enter, Keys: append(keys, m.Destinations...)}, nil
}

// guarantees returns the Limits of a ladder of this shape.
func guarantees(b blueprint, maxPriority uint8) delayer.Limits {
	quorum := b.kind == delayer.Quorum
	return delayer.Limits{
		Max:               b.ladder.longest,
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
