package controller

import (
	"context"
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
func (s *strategy) Plan() topology.Plan    { return s.blueprint.plan() }

// Growth implements [engine.Strategy]. The delivery keys and the user's BCC travel in a header of
// ours, beside the times of the stamp.
func (s *strategy) Growth() message.Growth {
	const times = 160
	return message.Growth{Hops: 1, NameSize: len(s.blueprint.names.wait(0)), HeaderSize: times, Carried: true}
}

// Enter sends a message to the longest queue that ends before it is due, or straight to a
// controller.
func (s *strategy) Enter(_ context.Context, m engine.Wait) (engine.Entry, error) {
	now := time.Now()
	remaining := dueTime(m).Sub(now)
	first := stamp{to: m.Destinations, bcc: m.BCC}
	exchange, hop := s.blueprint.names.enter(), time.Duration(0)
	if level := s.blueprint.schedule.next(remaining); level >= 0 {
		exchange, hop = s.blueprint.names.wait(level), s.blueprint.schedule.ttl(level)
	}
	return engine.Entry{Exchange: exchange, Headers: first.restamp(now, remaining, hop).header()}, nil
}

// dueTime is when a message is due. The engine took the time before it bound the destination: binding
// is part of the delay.
func dueTime(m engine.Wait) time.Time { return m.Envelope.Due.Add(whole(m.Delay) - m.Delay) }

// guarantees returns the Limits of this backend.
func (b blueprint) guarantees(maxPriority uint8) delayer.Limits {
	kind, cancelBefore := b.kind, time.Duration(0)
	if b.wheel != nil {
		cancelBefore = changes.AcceptedBefore
	}
	return delayer.Limits{
		Max:               longest,
		Resolution:        time.Millisecond,
		SurvivesRestart:   kind == delayer.Quorum,
		SurvivesCrash:     kind == delayer.Quorum,
		Replicated:        kind == delayer.Quorum,
		Ordered:           false, // messages in a controller may overtake each other
		ReportsUnroutable: true,
		KeepsUnroutable:   true,
		ExactTopics:       true,
		MaxPriority:       maxPriority,
		CancelBefore:      cancelBefore,
	}
}
