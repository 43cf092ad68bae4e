// Package fifth delays every message by a second, in one queue. It shows what a backend costs.
package fifth

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// Name is the name of this backend in a configuration.
const Name = "fifth"

const second = time.Second

// Config has nothing to configure.
type Config struct{}

// Default returns the defaults of a Config.
func Default() Config { return Config{} }

type strategy struct {
	settings engine.Settings
	limits   delayer.Limits
}

func newStrategy(opts delayer.Options, maxPriority uint8) (*strategy, error) {
	s, err := engine.Resolve(opts, Name)
	quorum := s.QueueType == delayer.Quorum
	return &strategy{s, delayer.Limits{
		Max: second, Resolution: time.Millisecond, Tiers: []time.Duration{second},
		SurvivesRestart: quorum, SurvivesCrash: quorum, Replicated: quorum,
		Ordered: true, ExactTopics: true, MaxPriority: maxPriority,
	}}, err
}

func (s *strategy) enter() string          { return s.settings.Prefix + ".fifth" }
func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Growth() message.Growth { return message.Growth{Hops: 1, NameSize: len(s.enter())} }

func (s *strategy) Plan() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: s.enter(), Kind: amqp091.ExchangeFanout}},
		Queues:    []topology.Queue{objects.WaitingQueue(s.enter(), s.settings.QueueType, second, s.settings.Stage().Exchange())},
		Bindings:  []topology.Binding{{Source: s.enter(), Target: s.enter()}},
	}
}

func (s *strategy) Enter(_ context.Context, m engine.Wait) (engine.Entry, error) {
	return engine.Entry{Exchange: s.enter(), Keys: m.Destinations}, nil
}

// Open connects, declares the queue and returns the Delayer.
func Open(ctx context.Context, opts delayer.Options, _ Config) (delayer.Delayer, error) {
	s, err := newStrategy(opts, engine.AnyPriority)
	if err != nil {
		return nil, err
	}
	c, err := engine.Connect(ctx, s.settings)
	if err != nil {
		return nil, err
	}
	s.limits.MaxPriority = c.MaxPriority()
	return engine.Opened(c.Start(ctx, s))
}

// Topology returns what Open declares.
func Topology(opts delayer.Options, _ Config) (topology.Plan, error) {
	s, err := newStrategy(opts, engine.AnyPriority)
	if err != nil {
		return topology.Plan{}, err
	}
	return s.settings.Whole(s.Plan()), nil
}

// Limits returns what this backend can do.
func Limits(opts delayer.Options, _ Config) (delayer.Limits, error) {
	s, err := newStrategy(opts, engine.AnyPriority)
	return s.limits, err
}
