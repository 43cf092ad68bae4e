package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/topology"
)

// strategy implements [engine.Strategy].
type strategy struct {
	blueprint blueprint
	limits    delayer.Limits
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.blueprint.plan() }

// mostKeys is how many bytes the keys of a message's destinations and its own BCC may take: both
// lists travel in a header of ours, for which message.Validate leaves room.
const mostKeys = 6 << 10

// Enter sends a message to the longest queue that ends before it is due, or straight to a
// controller.
func (s *strategy) Enter(_ context.Context, m engine.Message) (engine.Entry, error) {
	now := time.Now()
	// The engine has taken the time before it looked for the destination, which is part of the
	// delay.
	due := m.Envelope.Due.Add(whole(m.Delay) - m.Delay)
	remaining := due.Sub(now)
	first := stamp{to: m.Destinations, bcc: m.BCC}
	if n := first.size(); n > mostKeys {
		return engine.Entry{}, &delayer.Error{
			Op: "publish", Backend: Name, Kind: delayer.ErrInvalid,
			Cause: fmt.Errorf("the keys of its destinations and its BCC take %d bytes, %d fit", n, mostKeys),
			Hint:  "publish to an exchange with bindings instead of listing keys in CC and BCC",
		}
	}
	exchange, hop := s.blueprint.names.enter(), time.Duration(0)
	if level := s.blueprint.schedule.next(remaining); level >= 0 {
		exchange, hop = s.blueprint.names.wait(level), s.blueprint.schedule.ttl(level)
	}
	return engine.Entry{Exchange: exchange, Headers: first.restamp(now, remaining, hop).header()}, nil
}

// guarantees says what controllers can do.
func guarantees(kind topology.QueueType, maxPriority uint8) delayer.Limits {
	return delayer.Limits{
		Max:               longest,
		Resolution:        time.Millisecond,
		SurvivesRestart:   true,
		SurvivesCrash:     kind == topology.Quorum,
		Replicated:        kind == topology.Quorum,
		Ordered:           false, // messages on their way back through a controller may overtake each other
		ReportsUnroutable: true,
		KeepsUnroutable:   true,
		ExactTopics:       true,
		MaxPriority:       maxPriority,
	}
}
