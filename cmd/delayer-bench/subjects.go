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
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/baseline"
)

// A candidate is a subject before its queue type is chosen.
type candidate struct {
	backend, variant string
	group            string // how several variants are selected together: "source"
	baseline         bool
	undelayed        bool
	blocks           bool
	ladder           bool
	tick             time.Duration // of a ladder, where it was asked for
	onRequest        bool          // only if named
	usual            string        // the queue type with which it is measured unless it is named; empty: each
	pace             float64       // messages per second at saturation, roughly; 0 is plenty
	open             openFunc
	prime            func(longest, tick time.Duration) []time.Duration
}

// candidates lists all subjects in the order of the tables. The baselines' pace is for two cores
// and quorum queues.
func candidates(ladders []shape) []candidate {
	var out []candidate
	for _, shape := range ladders {
		c := candidate{
			backend: "binaryladder", variant: shape.variant, group: string(shape.routing), ladder: true, tick: shape.tick,
			open: openLadder(shape), prime: shape.prime,
		}
		if shape.routing == "topic" {
			c.pace = 7000
		}
		out = append(out, c)
	}
	return append(out,
		candidate{backend: "fixedtiers", open: openTiers},
		candidate{backend: "controller", variant: "rounds", group: "rounds", usual: "classic", pace: 5000, open: openController(controller.Rounds)},
		candidate{backend: "controller", variant: "slots", group: "slots", usual: "quorum", open: openController(controller.Slots)},
		candidate{backend: "plugin", open: openPlugin},
		candidate{backend: baseline.BitEntry, baseline: true, ladder: true, pace: 7000, open: openBaseline(baseline.BitEntry)},
		candidate{backend: baseline.TopEntry, baseline: true, ladder: true, pace: 450, open: openBaseline(baseline.TopEntry)},
		candidate{backend: baseline.PerMessageTTL, baseline: true, blocks: true, open: openBaseline(baseline.PerMessageTTL)},
		candidate{backend: baseline.Undelayed, baseline: true, undelayed: true, onRequest: true,
			open: openBaseline(baseline.Undelayed)},
	)
}

type openFunc func(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error)

// openLadder opens our ladder with its default tick, or the one that the scenario needs.
func openLadder(s shape) openFunc {
	return openBackend("binaryladder", func(env bench.Env, cfg *backend.Config) { cfg.BinaryLadder = s.config(env.Tick) })
}

// openTiers opens a tier for each delay: rounding up would look like lateness.
func openTiers(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
	const mostTiers = 100
	if len(env.Delays) > mostTiers {
		return nil, fmt.Errorf("%w: more different delays than the %d tiers that there may be", bench.ErrSkip, mostTiers)
	}
	return openBackend("fixedtiers", func(env bench.Env, cfg *backend.Config) { cfg.FixedTiers.Tiers = env.Delays })(ctx, env, queueType)
}

// openController opens one that runs in this process, which is the default.
func openController(wheel controller.Wheel) openFunc {
	open := openBackend("controller", func(_ bench.Env, cfg *backend.Config) { cfg.Controller.Wheel = wheel })
	return func(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
		if wheel == controller.Slots && delayer.QueueType(queueType) != delayer.Quorum {
			return nil, fmt.Errorf("%w: slots are quorum queues", bench.ErrSkip)
		}
		return open(ctx, env, queueType)
	}
}

// openPlugin opens backend plugin, or returns ErrSkip if the broker lacks the plugin.
func openPlugin(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
	d, err := openBackend("plugin", asIs)(ctx, env, queueType)
	var known *delayer.Error
	if errors.As(err, &known) && known.Backend == "plugin" && known.Object == "" && errors.Is(err, delayer.ErrUnavailable) {
		return nil, fmt.Errorf("%w: %w (to get the plugin: make install-plugin)", bench.ErrSkip, known.Cause)
	}
	return d, err
}

func asIs(bench.Env, *backend.Config) {}

func openBackend(name string, shape func(bench.Env, *backend.Config)) openFunc {
	return func(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
		cfg := backend.Config{
			Options: delayer.Options{URL: env.URL, Prefix: env.Prefix, QueueType: delayer.QueueType(queueType), Logger: slog.New(slog.DiscardHandler)},
			Backend: name,
		}
		shape(env, &cfg)
		return backend.Open(ctx, cfg)
	}
}

func openBaseline(name string) openFunc {
	return func(ctx context.Context, env bench.Env, queueType string) (delayer.Delayer, error) {
		b, err := baseline.Open(ctx, baseline.Config{
			URL: env.URL, Name: name, Prefix: env.Prefix, QueueType: queueType, Destination: env.Destination,
			Tick: env.Tick, Existing: env.Existing,
		})
		if err != nil {
			return nil, err // not b: a nil pointer in an interface is not nil
		}
		return b, nil
	}
}

// selectSubjects returns the named candidates, or all, with each queue type. A name is a backend,
// or a backend's variant such as "binaryladder/topic".
func selectSubjects(names, queueTypes []string, ladders []shape) ([]bench.Subject, error) {
	if err := oneOf("--backend", names, subjectNames()); err != nil {
		return nil, err
	}
	var out []bench.Subject
	for _, queueType := range queueTypes {
		for _, c := range candidates(ladders) {
			if c.selected(names, queueType) {
				out = append(out, c.subject(queueType))
			}
		}
	}
	return out, nil
}

func (c candidate) selected(names []string, queueType string) bool {
	if len(names) == 0 {
		return !c.onRequest && (c.usual == "" || c.usual == queueType)
	}
	return slices.Contains(names, c.backend) || slices.Contains(names, c.fullName())
}

func (c candidate) fullName() string { return strings.TrimSuffix(c.backend+"/"+c.group, "/") }

func (c candidate) subject(queueType string) bench.Subject {
	return bench.Subject{
		Backend: c.backend, Variant: c.variant, QueueType: queueType,
		Baseline: c.baseline, Undelayed: c.undelayed, Blocks: c.blocks, Ladder: c.ladder, Tick: c.tick,
		Pace: c.pace, Prime: c.prime,
		Open: func(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
			return c.open(ctx, env, queueType)
		},
	}
}

func subjectNames() []string {
	var names []string
	for _, c := range candidates(shapes(nil, nil)) {
		names = append(names, c.backend, c.fullName())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
