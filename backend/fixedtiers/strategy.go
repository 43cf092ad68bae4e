package fixedtiers

import (
	"context"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// strategy implements [engine.Strategy].
type strategy struct {
	*keeper.Links[int] // by the number of the tier
	blueprint          blueprint
	enter              string // the exchange that messages are published to
	limits             delayer.Limits
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.blueprint.plan() }

// Growth implements [engine.Strategy].
func (s *strategy) Growth() message.Growth {
	g := message.Growth{Hops: 1, Keys: 1}
	for i, tier := range s.blueprint.tiers {
		g.KeySize = max(g.KeySize, len(s.blueprint.key(i, 1)))
		g.NameSize = max(g.NameSize, len(s.blueprint.names.queue(tier)))
	}
	return g
}

// Enter returns the tier's key, and those that lead on from there.
func (s *strategy) Enter(ctx context.Context, m engine.Wait) (engine.Entry, error) {
	route := [...]int{s.blueprint.next(m.Delay)}
	keys, err := s.Keys(ctx, route[:], m.Words, len(m.Destinations))
	if err != nil {
		return engine.Entry{}, err
	}
	return engine.Entry{Exchange: s.enter, Keys: append(keys, m.Destinations...)}, nil
}

func newLinks(b blueprint, declare func(context.Context, topology.Plan) error) *keeper.Links[int] {
	return keeper.NewLinks(keeper.LinkSpec[int]{
		Backend: Name, Count: len(b.tiers), Index: func(tier int) int { return tier },
		Key: b.key, Needs: b.steps, Declare: declare,
	})
}

// guarantees returns the Limits of these tiers.
func guarantees(b blueprint, maxPriority uint8) delayer.Limits {
	return delayer.Limits{
		Max:               b.tiers[len(b.tiers)-1],
		Resolution:        time.Millisecond,
		Tiers:             slices.Clone(b.tiers),
		ExactTiers:        b.rounding == Exact,
		SurvivesRestart:   b.kind == delayer.Quorum,
		SurvivesCrash:     b.kind == delayer.Quorum,
		Replicated:        b.kind == delayer.Quorum,
		Ordered:           true,
		ReportsUnroutable: true,
		KeepsUnroutable:   true,
		ExactTopics:       true,
		MaxPriority:       maxPriority,
	}
}
