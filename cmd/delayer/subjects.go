package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/baseline"
)

// A candidate is a subject before its queue type is chosen.
type candidate struct {
	backend, variant string
	baseline         bool
	undelayed        bool
	onRequest        bool    // only if named
	pace             float64 // messages per second at saturation, roughly; 0 is plenty
	open             openFunc
}

// candidates are all that can be measured, in the order of the tables. The baselines' pace is that of
// two cores with quorum queues. tiers are the delays that there will be.
func candidates(tiers []time.Duration) []candidate {
	return []candidate{
		{backend: "binaryladder", variant: "source", open: openLadder("source")},
		{backend: "binaryladder", variant: "topic", pace: 7000, open: openLadder("topic")},
		{backend: "fixedtiers", open: openTiers(tiers)},
		{backend: "controller", pace: 5000, open: openController},
		{backend: "plugin", open: openPlugin},
		{backend: baseline.BitEntry, baseline: true, pace: 7000, open: openBaseline(baseline.BitEntry)},
		{backend: baseline.TopEntry, baseline: true, pace: 450, open: openBaseline(baseline.TopEntry)},
		{backend: baseline.PerMessageTTL, baseline: true, open: openBaseline(baseline.PerMessageTTL)},
		{backend: baseline.Undelayed, baseline: true, undelayed: true, onRequest: true,
			open: openBaseline(baseline.Undelayed)},
	}
}

type openFunc func(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error)

// openLadder opens our ladder with the levels and the tick of the published ones, so that the same
// delays take the same number of hops.
func openLadder(routing string) openFunc {
	return openBackend("binaryladder", func(cfg *backend.Config) {
		cfg.BinaryLadder = backend.BinaryLadder{Levels: 28, Tick: time.Second, Routing: routing, BitsPerLevel: 1}
	})
}

// openTiers opens a tier for each delay that there will be: to round up would look like lateness.
func openTiers(tiers []time.Duration) openFunc {
	open := openBackend("fixedtiers", func(cfg *backend.Config) { cfg.FixedTiers.Tiers = tiers })
	return func(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
		if len(tiers) > mostTiers {
			return nil, fmt.Errorf("%w: %d different delays, and at most %d tiers", bench.ErrSkip, len(tiers), mostTiers)
		}
		return open(ctx, env, queueType)
	}
}

const mostTiers = 100

// openController opens one that runs in this process, as is the default.
func openController(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
	return openBackend("controller", func(*backend.Config) {})(ctx, env, queueType)
}

// openPlugin opens it where the broker has the plugin.
func openPlugin(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
	d, err := openBackend("plugin", func(*backend.Config) {})(ctx, env, queueType)
	var known *delayer.Error
	if errors.As(err, &known) && known.Backend == "plugin" && known.Object == "" && errors.Is(err, delayer.ErrUnavailable) {
		return nil, fmt.Errorf("%w: %w", bench.ErrSkip, known.Cause)
	}
	return d, err
}

func openBackend(name string, shape func(*backend.Config)) openFunc {
	return func(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
		cfg := backend.Config{
			URL: env.URL, Prefix: env.Prefix, Backend: name, QueueType: queueType,
			// What goes wrong is in the report; log lines would tear the live line apart.
			Logger: slog.New(slog.DiscardHandler),
		}
		shape(&cfg)
		return backend.Open(ctx, cfg)
	}
}

func openBaseline(name string) openFunc {
	return func(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
		b, err := baseline.Open(ctx, baseline.Config{
			URL: env.URL, Name: name, Prefix: env.Prefix, QueueType: queueType, Destination: env.Destination,
		})
		if err != nil {
			return nil, err // not b: a nil pointer in an interface is not nil
		}
		return b, nil
	}
}

// selectSubjects returns the named candidates, or all, with each queue type. A name is that of a backend,
// or of a backend's variant as "binaryladder/topic".
func selectSubjects(names, queueTypes []string, tiers []time.Duration) ([]bench.Subject, error) {
	if err := oneOf("--backend", names, subjectNames()); err != nil {
		return nil, err
	}
	var out []bench.Subject
	for _, queueType := range queueTypes {
		for _, c := range candidates(tiers) {
			if c.selected(names) {
				out = append(out, c.subject(queueType))
			}
		}
	}
	return out, nil
}

func (c candidate) selected(names []string) bool {
	if len(names) == 0 {
		return !c.onRequest
	}
	return slices.Contains(names, c.backend) || slices.Contains(names, c.fullName())
}

func (c candidate) fullName() string { return strings.TrimSuffix(c.backend+"/"+c.variant, "/") }

func (c candidate) subject(queueType string) bench.Subject {
	return bench.Subject{
		Backend: c.backend, Variant: c.variant, QueueType: queueType,
		Baseline: c.baseline, Undelayed: c.undelayed, Pace: c.pace,
		Open: func(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
			return c.open(ctx, env, queueType)
		},
	}
}

func subjectNames() []string {
	var names []string
	for _, c := range candidates(nil) {
		names = append(names, c.backend, c.fullName())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
