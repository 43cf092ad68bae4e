package settle

import (
	"context"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// Limits returns what both wheels can do, on queues that are replicated or not.
func Limits(replicated bool) delayer.Limits {
	return delayer.Limits{
		Max: Longest, Resolution: time.Millisecond,
		SurvivesRestart: replicated, SurvivesCrash: replicated, Replicated: replicated,
		ExactTopics: true,
		MaxPriority: engine.AnyPriority, // messages wait without it
	}
}

// DrainTimeout is for what is being published when a controller closes.
const DrainTimeout = 10 * time.Second

// leastHeartbeat: a controller notices that it stood still for five seconds. The broker, which waits
// for two heartbeats, must not have given its messages to another before.
const leastHeartbeat = 3 * time.Second

// A Session is a controller's at the broker. It consumes over one connection and delivers over
// another.
type Session struct {
	Settler
	In        *broker.Conn
	Control   *broker.Control // the engine's
	Publisher *broker.Publisher
	Keeper    *keeper.Keeper // of the topology
}

// Connect opens a session beside an engine. In may have so many channels at a time.
func Connect(ctx context.Context, s engine.Settings, e *engine.Engine, channels int) (*Session, error) {
	opts := s.BrokerOptions("controller")
	opts.Channels, opts.Heartbeat = channels, leastHeartbeat
	in, err := broker.Dial(ctx, opts)
	if err != nil {
		return nil, err
	}
	out, err := broker.Dial(ctx, s.BrokerOptions("controller publish").Opening(broker.PublisherChannels))
	if err != nil {
		in.Close()
		return nil, err
	}
	publisher := broker.NewPublisher(s.Backend, e.Keeper().Reconnected, out)
	return &Session{
		In: in, Control: e.Control(), Publisher: publisher, Keeper: e.Keeper(),
		Settler: Settler{
			Backend: s.Backend, Stage: s.Stage(), User: in.User(), Observer: s.Observer, Log: opts.Slog(),
			out: publisher, renew: e.Keeper().Renew, doubt: e.Keeper().Doubt, missing: objects.Of(e.Control(), s.Backend).Missing,
			staged: pace.Pauses[string]{First: time.Second, Longest: time.Minute},
		},
	}, nil
}

// Close waits for what is being published, and returns to the broker what was not. Whoever consumes
// must have been told to end.
func (s *Session) Close(running *sync.WaitGroup) {
	Wait(running, 2*DrainTimeout, s.In.Close) // that long the broker does not answer
	s.In.Close()
	s.Publisher.Close()
}

// Wait waits for what is running. After a while it makes that end.
func Wait(running *sync.WaitGroup, within time.Duration, end func()) {
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(within):
		end()
		<-done
	}
}

// Redeclare declares the topology again: a queue that was consumed may be gone.
func (s *Session) Redeclare(ctx context.Context) {
	if err := s.Keeper.Redeclare(ctx); err != nil && ctx.Err() == nil {
		s.Warn("the controller cannot declare its queues", "error", err)
	}
}
