package main

import (
	"cmp"
	"time"

	"github.com/delayer-go/delayer/bench"
)

// sizes are the defaults of the flags: each scenario without the settings that all have in common.
type sizes struct {
	queueTypes []string
	warmUp     int
	delays     delays // of accuracy

	accuracy int // messages
	hol      bench.HOL
	mix      bench.Mix
	burst    bench.Burst
	rate     bench.Rate
	backlog  bench.Backlog
	hops     bench.Hops
	crash    bench.Crash
	recovery bench.Recovery
}

// usual is the default run. A scenario that is named has these sizes too.
var usual = sizes{
	queueTypes: []string{"quorum", "classic"},
	warmUp:     500,
	delays:     delays{from: time.Second, to: 15 * time.Second},
	accuracy:   20_000,
	hol:        bench.HOL{Load: bench.Load{Messages: 1000}, Long: 30 * time.Second, Short: time.Second},
	mix:        bench.Mix{Load: bench.Load{Messages: 2000, Rate: 400}, Long: 15 * time.Second, Short: time.Second, Every: 10},
	burst:      bench.Burst{Load: bench.Load{Messages: 20_000}, Spread: 10 * time.Second, Lead: 4 * time.Second},
	rate: bench.Rate{
		// Short, so that a rate is soon in full swing, and still one hop or two.
		DelayMin: time.Second, DelayMax: 3 * time.Second, Probe: 4 * time.Second, Settle: time.Second,
		Limit: 100 * time.Millisecond, First: 500, Most: 64_000, Budget: 2 * time.Minute,
	},
	backlog: bench.Backlog{
		Load: bench.Load{Messages: 100_000}, Probes: 1000, ProbeRate: 200,
		// Longer than what the management API takes to renew its figures.
		Settle: 5500 * time.Millisecond, From: time.Second, To: 3 * time.Second,
	},
	hops: bench.Hops{Load: bench.Load{Messages: 1000, Rate: 500}, Hops: []int{1, 4, 8, 16}},
	crash: bench.Crash{
		Load: bench.Load{Messages: 5000}, DelayMin: 5 * time.Second, DelayMax: 15 * time.Second, Settle: 3 * time.Second,
	},
	recovery: bench.Recovery{
		Load: bench.Load{Messages: 100_000}, Due: 1000, From: 5 * time.Second, To: 10 * time.Second, Settle: 3 * time.Second,
	},
}

// full is the reference run. It has all scenarios, so each is as small as its question allows.
var full = func() sizes {
	s := usual
	s.delays = delays{from: time.Second, to: 7 * time.Second}
	s.accuracy = 10_000
	s.hol.Long = 8 * time.Second
	s.mix.Messages, s.mix.Rate, s.mix.Long = 1000, 300, 6*time.Second
	s.burst.Spread, s.burst.Lead = 8*time.Second, 4*time.Second
	s.rate.First, s.rate.DelayMax, s.rate.Probe, s.rate.Budget = 1000, 2*time.Second, 3*time.Second, 20*time.Second
	s.backlog.Probes = 500
	s.crash.DelayMin, s.crash.DelayMax = 4*time.Second, 8*time.Second
	return s
}()

// quick must end within three minutes on two cores, including the start of a broker. All subjects
// get the same work, so the slowest one limits it: the ladder entered at the top carries about 500
// messages a second on two cores. The queue type is our default.
var quick = func() sizes {
	s := usual
	s.queueTypes = []string{"quorum"}
	s.warmUp = 200
	s.delays = delays{from: time.Second, to: 5 * time.Second}
	s.accuracy = 5_000
	s.hol = bench.HOL{Load: bench.Load{Messages: 500}, Long: 5 * time.Second, Short: time.Second}
	return s
}()

// patience is how long nothing may arrive before missing messages count as lost.
const patience = 20 * time.Second

// scenarios returns all scenarios, with the given settings instead of the defaults.
func (s sizes) scenarios(asked bench.Load) []bench.Scenario {
	load := func(l bench.Load) bench.Load {
		l.Messages, l.Rate = cmp.Or(asked.Messages, l.Messages), cmp.Or(asked.Rate, l.Rate)
		l.Concurrency, l.Body, l.WarmUp, l.Patience = asked.Concurrency, asked.Body, s.warmUp, patience
		return l
	}
	accuracy := bench.Accuracy{
		Load: load(bench.Load{Messages: s.accuracy}), DelayMin: s.delays.from, DelayMax: s.delays.to, Step: s.delays.step(),
		Of: s.delays.list,
	}
	s.hol.Load, s.mix.Load, s.burst.Load = load(s.hol.Load), load(s.mix.Load), load(s.burst.Load)
	s.rate.Load, s.backlog.Load, s.hops.Load = load(s.rate.Load), load(s.backlog.Load), load(s.hops.Load)
	s.crash.Load, s.recovery.Load = load(s.crash.Load), load(s.recovery.Load)
	return []bench.Scenario{
		accuracy, s.hol, s.mix, s.burst, s.rate, s.backlog, s.hops, s.crash, s.recovery,
	}
}
