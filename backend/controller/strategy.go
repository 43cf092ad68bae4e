package controller

import (
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/changes"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// strategy implements [engine.Strategy].
type strategy struct {
	blueprint blueprint
	limits    delayer.Limits
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.blueprint.Plan() }

// Growth implements [engine.Strategy]. The delivery keys and the user's BCC travel in a header of
// ours, beside the times of the stamp.
func (s *strategy) Growth() message.Growth {
	const times = 160
	return message.Growth{Hops: 1, NameSize: len(s.blueprint.names.enter()), HeaderSize: times, Carried: true}
}

// dueTime is when a message is due. The engine took the time before it bound the destination: binding
// is part of the delay.
func dueTime(m engine.Wait) time.Time { return m.Envelope.Due.Add(whole(m.Delay) - m.Delay) }

// Limits returns the Limits of this wheel.
func (b blueprint) Limits(maxPriority uint8) delayer.Limits {
	return delayer.Limits{
		Max:               longest,
		Resolution:        time.Millisecond,
		SurvivesRestart:   true,
		SurvivesCrash:     true,
		Replicated:        true,
		Ordered:           false, // messages in a controller may overtake each other
		ReportsUnroutable: true,
		KeepsUnroutable:   true,
		ExactTopics:       true,
		MaxPriority:       maxPriority,
		CancelBefore:      changes.AcceptedBefore,
	}
}
