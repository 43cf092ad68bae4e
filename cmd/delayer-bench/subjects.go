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
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/backend/native"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/lab/bench"
)

// A candidate is a subject, and when the command measures it.
type candidate struct {
	bench.Subject
	group string // how several variants are selected together: "source"
	usual string // measured with this type of queue only, unless it is named; "": with each
	named bool   // measured only if it is named

	configure func(bench.Env, *backend.Config) error // nil: the backend's defaults
	exchange  bool                                   // messages wait in an exchange
}

// candidates lists all subjects in the order of the tables: each backend, also one that is not
// known here, then serve, then the baselines. steps are those of the ladders to measure; without any
// it is the default ladder.
func candidates(queueType string, steps []string) []candidate {
	slots := wheel(controller.Slots, candidate{usual: "quorum"})
	slots.About = "messages wait in slots of time; a controller in the benchmark's process takes those that are due soon"
	rounds := wheel(controller.Rounds, candidate{usual: "classic"})
	rounds.About = "a controller in the benchmark's process sends messages round a wheel of TTL queues"
	ladders := []candidate{ladder("source", binaryladder.Config{})}
	if len(steps) > 0 {
		ladders = nil
	}
	for _, list := range steps {
		name := list
		if first, more, several := strings.Cut(list, ","); several {
			name = fmt.Sprintf("%s+%d", first, strings.Count(more, ",")+1)
		}
		ladders = append(ladders, ladder("source "+name, binaryladder.Config{Steps: binaryladder.Steps(list)}))
	}
	topic := ladder("topic", binaryladder.Config{Steps: binaryladder.Binary, Routing: binaryladder.Topic})
	topic.Scenarios = []string{"accuracy", "cost"}
	topic.About = "a ladder: a TTL queue for each bit of a delay; topic exchanges compare the bits in the routing key"
	variants := map[string][]candidate{
		binaryladder.Name: append(ladders, topic),
		controller.Name:   {rounds, slots},
		fixedtiers.Name: {
			{Subject: bench.Subject{Hops: once, About: "a TTL queue for each delay of the benchmark"}, configure: tierEach},
			{Subject: bench.Subject{Variant: fewTiers, Hops: once,
				About: "TTL queues for 1, 2, 5, 10, 20, 30 and 60 s: what is between two waits for the longer one"},
				group: fewTiers, named: true, configure: tierFew},
		},
		native.Name: {{Subject: bench.Subject{Hops: once, About: "quorum queues of RabbitMQ 4.4, which hide a message until its time"}, usual: "quorum"}},
		plugin.Name: {{Subject: bench.Subject{Hops: once, About: "the x-delayed-message plugin: one copy, on one node"}, exchange: true}},
	}
	var out []candidate
	for _, name := range backend.Names() {
		known := variants[name]
		if known == nil {
			known = []candidate{{}}
		}
		for _, c := range known {
			c.Backend, c.QueueType = name, queueType
			c.Open, c.Remove = c.open, c.remove
			out = append(out, c)
		}
	}
	out = append(out, served(binaryladder.Name, queueType, ladder("ladder", binaryladder.Config{})),
		served(controller.Name, queueType, slots))
	for _, s := range bench.Baselines(queueType) {
		c := candidate{Subject: s, named: s.Backend == bench.MixedTiers}
		if !s.Undelayed {
			c.Scenarios = []string{"accuracy", "cost", "hol", "rate"}
		}
		if s.Backend == bench.TopEntry {
			c.Scenarios = c.Scenarios[:3]
		}
		out = append(out, c)
	}
	return out
}

// once is the Hops of what waits in one place.
func once(_ time.Duration, delays ...time.Duration) []int {
	return slices.Repeat([]int{1}, len(delays))
}

func wheel(wheel controller.Wheel, c candidate) candidate {
	c.Variant, c.group, c.Moves = string(wheel), string(wheel), true
	c.configure = func(env bench.Env, cfg *backend.Config) error {
		cfg.Observer.Round = func(delayer.RoundEvent) { env.Moved() }
		if wheel == controller.Slots && cfg.QueueType != delayer.Quorum {
			return fmt.Errorf("%w: slots are quorum queues", bench.ErrSkip)
		}
		cfg.Controller.Wheel = wheel
		return nil
	}
	return c
}

// ladder is a ladder with the tick that the delays need. Its group is the variant's first word.
func ladder(variant string, of binaryladder.Config) candidate {
	c := candidate{Subject: bench.Subject{Variant: variant, Lazy: true,
		About: "a ladder: a TTL queue for each step of a delay; a message carries its way as routing keys"}}
	c.group, _, _ = strings.Cut(variant, " ")
	c.configure = func(env bench.Env, cfg *backend.Config) error {
		cfg.BinaryLadder = of
		cfg.BinaryLadder.Tick = env.Tick
		return nil
	}
	c.Hops = func(tick time.Duration, delays ...time.Duration) (out []int) {
		ticking := of
		ticking.Tick = tick
		plans, _ := binaryladder.Hops(ticking, delays...) // Open says what is wrong
		for _, plan := range plans {
			out = append(out, len(plan))
		}
		return out
	}
	return c
}

// tierEach configures a tier for each delay: rounding up would look like lateness.
func tierEach(env bench.Env, cfg *backend.Config) error {
	const most = 100
	if len(env.Delays) > most {
		return fmt.Errorf("%w: more different delays than the %d tiers that there may be", bench.ErrSkip, most)
	}
	cfg.FixedTiers.Tiers = env.Delays
	cfg.FixedTiers.MaxLength = 10_000_000 // a backlog may be of more than the million that a tier holds by default
	return nil
}

// fewTiers is the variant of fixedtiers that has tiers of its own, as a team chooses them.
const fewTiers = "few"

func tierFew(env bench.Env, cfg *backend.Config) error {
	for _, seconds := range []time.Duration{1, 2, 5, 10, 20, 30, 60} {
		cfg.FixedTiers.Tiers = append(cfg.FixedTiers.Tiers, seconds*time.Second)
	}
	if slices.Max(env.Delays) > time.Minute {
		return fmt.Errorf("%w: its longest tier is a minute", bench.ErrSkip)
	}
	return nil
}

// open opens the backend. A controller runs in this process, which is its default.
func (c candidate) open(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
	cfg, err := c.config(env)
	if err != nil {
		return nil, err
	}
	d, err := backend.Open(ctx, cfg)
	var known *delayer.Error
	if errors.As(err, &known) && known.Object == "" && errors.Is(err, delayer.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", bench.ErrSkip, known.Cause)
	}
	return d, err
}

func (c candidate) remove(ctx context.Context, env bench.Env) error {
	cfg, err := c.config(env)
	if err != nil {
		return err
	}
	const withMessages = true
	return backend.Remove(ctx, cfg, withMessages)
}

func (c candidate) config(env bench.Env) (cfg backend.Config, err error) {
	cfg.URL, cfg.Prefix, cfg.QueueType, cfg.Backend = env.URL, env.Prefix, delayer.QueueType(c.QueueType), c.Backend
	cfg.Logger = slog.New(slog.DiscardHandler)
	if c.configure != nil {
		err = c.configure(env, &cfg)
	}
	return cfg, err
}

// selected says whether the subject is measured. names are those of --backend.
func (c candidate) selected(names []string) bool {
	if len(names) == 0 {
		return !c.Undelayed && !c.named && (c.usual == "" || c.usual == c.QueueType)
	}
	return slices.Contains(names, c.fullName()) || c.group != fewTiers && slices.Contains(names, c.Backend)
}

func (c candidate) fullName() string { return strings.TrimSuffix(c.Backend+"/"+c.group, "/") }

func subjectNames() []string {
	var names []string
	for _, c := range candidates("quorum", nil) {
		names = append(names, c.Backend, c.fullName())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
