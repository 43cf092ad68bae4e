package fixedtiers

import (
	"context"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/topology"
)

// strategy implements [engine.Strategy].
type strategy struct {
	blueprint blueprint
	links     *engine.Links[int] // by the number of the tier
	limits    delayer.Limits
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.blueprint.plan() }
func (s *strategy) Used() topology.Plan    { return s.links.Used() }
func (s *strategy) Reset()                 { s.links.Reset() }

// Enter returns the tier's key, and those that lead on from there.
func (s *strategy) Enter(ctx context.Context, j engine.Journey) (engine.Entry, error) {
	way := [...]int{s.blueprint.next(j.Delay)}
	keys, err := s.links.Keys(ctx, way[:], j.Words, len(j.Destinations))
	if err != nil {
		return engine.Entry{}, err
	}
	return engine.Entry{Exchange: s.blueprint.names.enter(), Keys: append(keys, j.Destinations...)}, nil
}

func newLinks(b blueprint, declare func(context.Context, topology.Plan) error) *engine.Links[int] {
	return engine.NewLinks(engine.LinkSpec[int]{
		Backend: Name, Count: len(b.tiers), Index: func(tier int) int { return tier },
		Key: b.key, Needs: b.steps, Declare: declare,
	})
}

// guarantees says what tiers of this shape can do.
func guarantees(b blueprint, rounding Rounding, maxPriority uint8) delayer.Limits {
	return delayer.Limits{
		Max:               b.tiers[len(b.tiers)-1],
		Resolution:        time.Millisecond,
		Tiers:             slices.Clone(b.tiers),
		ExactTiers:        rounding == Exact,
		SurvivesRestart:   b.kind == topology.Quorum,
		SurvivesCrash:     b.kind == topology.Quorum,
		Replicated:        b.kind == topology.Quorum,
		Ordered:           true,
		ReportsUnroutable: true,
		KeepsUnroutable:   true,
		ExactTopics:       true,
		MaxPriority:       maxPriority,
	}
}
