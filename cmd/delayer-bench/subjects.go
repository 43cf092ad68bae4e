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
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/bench"
)

// A candidate is a subject, and when the command measures it.
type candidate struct {
	bench.Subject
	group string // how several variants are selected together: "source"
	usual string // measured with this type of queue only, unless it is named; "": with each
	named bool   // measured only if it is named

	// With --full, unless it is named:
	only    []string // these scenarios; nil: all
	oneType bool     // one type of queue: the other would repeat the result

	configure func(bench.Env, *backend.Config) error // nil: the backend's defaults
	exchange  bool                                   // messages wait in an exchange, of a type that the broker may lack
}

// variants lists the backends that are not measured once, with their defaults.
func variants(ladders []shape) map[string][]candidate {
	out := map[string][]candidate{
		controller.Name: {
			wheel(controller.Rounds, candidate{Subject: bench.Subject{Pace: 5000, About: "a controller in the benchmark's process sends messages round a wheel of TTL queues"}, usual: "classic"}),
			wheel(controller.Slots, candidate{Subject: bench.Subject{About: "messages wait in slots of time; a controller in the benchmark's process takes those that are due soon"}, usual: "quorum"}),
		},
		fixedtiers.Name: {
			{Subject: bench.Subject{Hops: once, About: "a TTL queue for each delay of the benchmark"}, configure: tierEach},
			{Subject: bench.Subject{Variant: fewTiers, Hops: once, About: "TTL queues for 1, 2, 5, 10, 20, 30 and 60 s: what is between two waits for the longer one"},
				group: fewTiers, named: true, configure: tierFew},
		},
		plugin.Name: {{Subject: bench.Subject{Hops: once, About: "the x-delayed-message plugin: one copy, on one node"}}},
	}
	for _, s := range ladders {
		c := candidate{
			Subject: bench.Subject{Variant: s.variant, About: s.about(), Ladder: true, Tick: s.tick, Prime: s.prime, Hops: s.hops}, group: string(s.routing),
			configure: func(env bench.Env, cfg *backend.Config) error { cfg.BinaryLadder = s.config(env.Tick); return nil },
		}
		if s.routing == binaryladder.Topic {
			c.Pace, c.only = 7000, []string{"accuracy", "cost"}
		}
		out[binaryladder.Name] = append(out[binaryladder.Name], c)
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
	if longest := cfg.FixedTiers.Tiers[len(cfg.FixedTiers.Tiers)-1]; slices.Max(env.Delays) > longest {
		return fmt.Errorf("%w: its longest tier is %v", bench.ErrSkip, longest)
	}
	return nil
}

// slow is a Pace, in messages a second, with which the larger scenarios take minutes.
const slow = 1000

// candidates lists all subjects in the order of the tables: each backend, then the baselines.
func candidates(queueType string, ladders []shape) []candidate {
	var out []candidate
	shaped := variants(ladders)
	for _, name := range backend.Names() {
		known := shaped[name]
		if known == nil {
			known = []candidate{{}}
		}
		about, _ := backend.About(name)
		for _, c := range known {
			c.Backend, c.QueueType = name, queueType
			c.exchange, c.oneType = about.InExchange, about.InExchange
			c.Open, c.Remove = c.open, c.remove
			out = append(out, c)
		}
	}
	out = append(out, serves(queueType)...)
	for _, s := range bench.Baselines(queueType) {
		c := candidate{Subject: s, oneType: s.Blocks || s.Undelayed, named: s.Backend == bench.PluginClient || s.Backend == bench.MixedTiers}
		if s.Pace > 0 && s.Pace < slow {
			c.only, c.oneType = []string{"accuracy", "cost", "hol"}, true
		}
		out = append(out, c)
	}
	return out
}

// open opens the backend. A controller runs in this process, which is its default.
func (c candidate) open(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
	cfg, err := c.config(env)
	if err != nil {
		return nil, err
	}
	d, err := backend.Open(ctx, cfg)
	var known *delayer.Error
	if c.exchange && errors.As(err, &known) && known.Object == "" && errors.Is(err, delayer.ErrNotFound) {
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

// excluded says whether a full run leaves out the subject in a scenario: what takes minutes, or
// repeats a result. first says that its queue type is the first that is measured.
func (c candidate) excluded(scenario string, first bool) bool {
	in := func(scenarios ...string) bool { return slices.Contains(scenarios, scenario) }
	switch {
	case !first && (c.oneType || in("hol", "hol-mix")):
		return true
	case c.only != nil:
		return !in(c.only...)
	}
	return c.Baseline && in("backlog")
}

func subjectNames() []string {
	var names []string
	for _, c := range candidates("quorum", shapes(nil, nil)) {
		names = append(names, c.Backend, c.fullName())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A shape is a ladder that is measured: the default one, or one of --steps and --tick.
type shape struct {
	variant string
	routing binaryladder.Routing
	steps   binaryladder.Steps
	tick    time.Duration // 0: the default, or what the scenario needs
}

// shapes returns the ladders for these steps and ticks. Each pair gives one with routing source,
// and each tick one with routing topic. Without steps and ticks it returns the default ladder with
// both routings.
func shapes(steps []string, ticks []time.Duration) []shape {
	def := backend.Default().BinaryLadder
	if len(steps)+len(ticks) == 0 {
		return []shape{
			{variant: "source", routing: binaryladder.Source, steps: def.Steps},
			{variant: "topic", routing: binaryladder.Topic, steps: binaryladder.Binary},
		}
	}
	if len(steps) == 0 {
		steps = []string{string(def.Steps)}
	}
	if len(ticks) == 0 {
		ticks = []time.Duration{def.Tick}
	}
	var out []shape
	for _, tick := range ticks {
		for _, s := range steps {
			out = append(out, shape{fmt.Sprintf("source %s %v", stepsName(s), tick), binaryladder.Source, binaryladder.Steps(s), tick})
		}
	}
	for _, tick := range ticks {
		out = append(out, shape{fmt.Sprintf("topic %v", tick), binaryladder.Topic, binaryladder.Binary, tick})
	}
	return out
}

// about says what the ladder is.
func (s shape) about() string {
	if s.routing == binaryladder.Topic {
		return "a ladder: a TTL queue for each bit of a delay; topic exchanges compare the bits in the routing key"
	}
	return "a ladder: a TTL queue for each step of a delay; a message carries its way as routing keys"
}

// stepsName shortens a list for tables.
func stepsName(steps string) string {
	if n := strings.Count(steps, ","); n > 0 {
		first, _, _ := strings.Cut(steps, ",")
		return fmt.Sprintf("%s+%d", first, n)
	}
	return steps
}

// config returns the ladder's Config. wanted is the tick that the delays need, 0 for a second.
func (s shape) config(wanted time.Duration) binaryladder.Config {
	cfg := binaryladder.Config{Tick: backend.Default().BinaryLadder.Tick, Routing: s.routing, Steps: s.steps}
	switch {
	case s.tick > 0:
		cfg.Tick = s.tick
	case wanted > 0 && wanted < cfg.Tick:
		cfg.Tick = wanted
	}
	return cfg
}

// prime returns those delays that together use each link of the ladder that any of them uses:
// between two steps, into the ladder and out of it. delays are sorted, and so is what it returns:
// from the longest down, since long ones take more links.
func (s shape) prime(delays []time.Duration, wanted time.Duration) []time.Duration {
	const outside = time.Duration(0)
	plans, err := binaryladder.Hops(s.config(wanted), delays...)
	if err != nil {
		return nil // Open says why
	}
	used := map[[2]time.Duration]bool{}
	var out []time.Duration
	for i, plan := range slices.Backward(plans) {
		from, known := outside, len(used)
		for _, to := range append(plan, outside) {
			used[[2]time.Duration{from, to}] = true
			from = to
		}
		if len(used) > known {
			out = append(out, delays[i])
		}
	}
	return out
}

// hops counts the steps of each delay.
func (s shape) hops(wanted time.Duration, delays ...time.Duration) []int {
	plans, err := binaryladder.Hops(s.config(wanted), delays...)
	if err != nil {
		return nil // Open says why
	}
	out := make([]int, len(plans))
	for i, plan := range plans {
		out[i] = len(plan)
	}
	return out
}
