package settle

import (
	"context"
	"log/slog"
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
	In        *broker.Conn
	Control   *broker.Control // the engine's
	Publisher *broker.Publisher
	Settler   *Settler
	Keeper    *keeper.Keeper // of the topology
	Log       *slog.Logger
	Observer  delayer.Observer
	Backend   string

	warnings pace.Warnings
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
	at := &Session{
		In: in, Control: e.Control(), Publisher: broker.NewPublisher(s.Backend, e.Keeper().Reconnected, out),
		Keeper: e.Keeper(), Log: opts.Slog(), Observer: s.Observer, Backend: s.Backend,
	}
	at.Settler = &Settler{
		Backend: s.Backend, Stage: s.Stage(), User: in.User(), Publisher: at.Publisher,
		Renew: at.Keeper.Renew, Doubt: at.Keeper.Doubt, Missing: objects.Of(at.Control, s.Backend).Missing,
		Observer: s.Observer, Warn: at.Warn,
		staged: pace.Pauses[string]{First: time.Second, Longest: time.Minute},
	}
	return at, nil
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

// Warn logs each text at most once a minute.
func (s *Session) Warn(text string, args ...any) { s.warnings.Warn(s.Log, text, args...) }
