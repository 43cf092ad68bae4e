package bench

import (
	"cmp"
	"slices"
	"time"
)

// A Size is how much a [Benchmark] does. The zero Size runs accuracy, cost, hol and rate.
type Size int

// The other sizes.
const (
	Quick Size = iota + 1 // a small accuracy, cost and hol: on two cores about three minutes for the subjects of delayer-bench with one type of queue
	Full                  // every scenario, each as small as its question allows
)

// sizes are the scenarios without the settings that all have in common.
type sizes struct {
	run      []string // the scenarios that are run unless others are named
	warmUp   int
	accuracy accuracy
	cost     cost
	hol      hol
	rate     topRate
	backlog  depth
}

// usual is the zero Size. A scenario that is named has these sizes too.
var usual = sizes{
	run:      []string{"accuracy", "cost", "hol", "rate"},
	warmUp:   500,
	accuracy: accuracy{common{messages: 20_000, rate: 1000, due: Every(time.Second, 15*time.Second)}},
	cost:     cost{accuracy{common{messages: 20_000, due: Every(time.Second, 15*time.Second)}}},
	hol:      hol{common{messages: 1000, rate: 400, due: []time.Duration{time.Second, 30 * time.Second}}},
	rate: topRate{
		// Short, so that a rate is soon in full swing, and still one hop or two. What counts is
		// published while as many messages leave as come.
		common: common{due: Every(time.Second, 3*time.Second)}, length: 6 * time.Second, settle: 3 * time.Second,
		limit: 100 * time.Millisecond, first: 500, most: 64_000, budget: 3 * time.Minute,
	},
	backlog: depth{
		common: common{messages: 100_000, due: Every(time.Second, 3*time.Second)}, probes: 1000, probeRate: 200,
		// Longer than what the management API takes to renew its figures.
		settle: 5500 * time.Millisecond,
	},
}

// full is the reference run. It has all scenarios, so each is as small as its question allows.
var full = func() sizes {
	s := usual
	s.run = nil // all
	s.accuracy.messages, s.accuracy.due = 5_000, Every(time.Second, 7*time.Second)
	s.cost.messages, s.cost.due = 10_000, s.accuracy.due
	s.hol.due = []time.Duration{time.Second, 8 * time.Second}
	s.rate.due, s.rate.first, s.rate.budget = Every(time.Second, 2*time.Second), 4000, 2*time.Minute
	s.rate.length, s.rate.settle = 4*time.Second, 2*time.Second
	s.backlog.probes = 500
	return s
}()

// quick takes about three minutes on two cores, including the start of a broker. All subjects
// get the same work, so the slowest one limits it: the ladder entered at the top carries about 500
// messages a second on two cores.
var quick = func() sizes {
	s := usual
	s.run = []string{"accuracy", "cost", "hol"}
	s.warmUp = 200
	s.accuracy.messages, s.accuracy.due = 2_000, Every(time.Second, 2*time.Second)
	s.cost.messages, s.cost.due = 3_000, s.accuracy.due
	s.hol.messages, s.hol.due = 500, []time.Duration{time.Second, 3 * time.Second}
	return s
}()

// patience is how long nothing may arrive before missing messages count as lost.
const patience = 20 * time.Second

// Scenarios lists the names of all scenarios, in the order in which they are run.
func Scenarios() []string {
	var names []string
	for _, s := range usual.scenarios(Benchmark{}) {
		names = append(names, s.about().Name)
	}
	return names
}

// chosen returns the scenarios to run.
func (b Benchmark) chosen() []scenario {
	size := map[Size]sizes{Quick: quick, Full: full, 0: usual}[b.Size]
	names := b.Scenarios
	if len(names) == 0 {
		names = size.run
	}
	return slices.DeleteFunc(size.scenarios(b), func(s scenario) bool {
		return len(names) > 0 && !slices.Contains(names, s.about().Name)
	})
}

// publishers is how many there are unless Benchmark.Concurrency says otherwise.
const publishers = 256

func (s sizes) scenarios(b Benchmark) []scenario {
	for _, c := range []*common{
		&s.accuracy.common, &s.cost.common, &s.hol.common, &s.rate.common, &s.backlog.common,
	} {
		c.messages, c.rate = cmp.Or(b.Messages, c.messages), cmp.Or(b.Rate, c.rate)
		c.concurrency, c.bodySize, c.warmUp, c.patience = cmp.Or(b.Concurrency, publishers), b.Body, s.warmUp, patience
	}
	s.cost.rate = 0
	if len(b.Delays) > 0 {
		s.accuracy.due, s.cost.due = b.Delays, b.Delays
	}
	return []scenario{s.accuracy, s.cost, s.hol, s.rate, s.backlog}
}
