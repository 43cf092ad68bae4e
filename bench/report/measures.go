package report

import (
	"slices"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// A measure is one figure of a run: a column of the tables and a value in report.bench.
type measure struct {
	name, unit string
	scenarios  []string // nil: all
	higher     bool     // higher is better
	fault      bool     // counts what must not happen; repetitions are summed
	value      func(Run) (v float64, known bool)
	// sparing: it has no column where no run of the table has the figure.
	sparing bool
	// vague says that the run was measured and gave no figure: it may be better than those that
	// did. nil: never.
	vague func(Run) bool
}

// timed are the scenarios that tell how late messages are. In cost a subject that is slow is asked
// for less: to compare how late two are there would favour the slower one.
var timed = []string{"accuracy", "hol", "hol-mix", "burst", "rate", "backlog", "hops", "crash", "recovery"}

// measures are the columns, in order.
var measures = []measure{
	{name: "publish", unit: "msg/s", scenarios: []string{"accuracy", "cost", "backlog"}, higher: true, value: published, sparing: true},
	{name: "CPU", unit: "µs/msg", scenarios: []string{"accuracy", "cost", "burst"},
		value: positive(func(r Run) float64 { return r.BrokerCPU })},
	{name: "own CPU", unit: "µs/msg", scenarios: []string{"accuracy", "cost"},
		value: positive(func(r Run) float64 { return r.ProcessCPU })},
	{name: "both", unit: "µs/msg", scenarios: []string{"accuracy", "cost"}, value: bothCPU, sparing: true},
	{name: "queues", unit: "each", scenarios: []string{"accuracy", "cost", "hol-mix", "burst", "rate", "crash"}, sparing: true,
		value: positive(func(r Run) float64 { return r.Hops })},
	{name: "written", unit: "B/msg", scenarios: []string{"cost"}, sparing: true,
		value: positive(func(r Run) float64 { return r.Written })},
	{name: "network", unit: "B/msg", scenarios: []string{"cost"}, sparing: true,
		value: positive(func(r Run) float64 { return r.Network })},
	{name: "in time to", unit: "msg/s", scenarios: []string{"rate"}, higher: true,
		value: func(r Run) (float64, bool) { return r.MaxRate, len(r.Probes) > 0 }},
	{name: "drained in", unit: "ms", scenarios: []string{"burst"},
		value: positive(func(r Run) float64 { return r.DrainMS })},
	{name: "memory", unit: "B/msg", scenarios: []string{"backlog"},
		value: memoryOf, vague: Run.vagueMemory},
	{name: "disk", unit: "B/msg", scenarios: []string{"backlog"},
		value: positive(func(r Run) float64 { return r.DiskPerMessage })},
	{name: "CPU, most set bits", unit: "µs/msg", scenarios: []string{"hops"}, value: positive(costliest)},
	{name: "down for", unit: "ms", scenarios: []string{"crash", "recovery"},
		value: positive(func(r Run) float64 { return r.DownMS })},
	{name: "serves after", unit: "ms", scenarios: []string{"crash", "recovery"},
		value: positive(func(r Run) float64 { return r.ServesMS })},
	{name: "late p50", unit: "ms", scenarios: timed, value: lateness(func(l Lateness) float64 { return l.P50 })},
	{name: "p90", unit: "ms", scenarios: timed, value: lateness(func(l Lateness) float64 { return l.P90 })},
	{name: "p99", unit: "ms", scenarios: timed, value: lateness(func(l Lateness) float64 { return l.P99 })},
	{name: "max", unit: "ms", scenarios: timed, value: lateness(func(l Lateness) float64 { return l.Max })},
	{name: "lost", unit: "msg", fault: true, value: counted(func(r Run) int { return r.Lost })},
	{name: "twice", unit: "msg", fault: true, value: counted(func(r Run) int { return r.Duplicated })},
	{name: "early", unit: "msg", fault: true, value: counted(func(r Run) int { return r.Early })},
}

// bothCPU is the broker's processor time and this process's: a controller in this process does what
// others leave to the broker.
func bothCPU(r Run) (float64, bool) {
	return r.BrokerCPU + r.ProcessCPU, r.BrokerCPU > 0 && r.ProcessCPU > 0
}

// published is unknown where a rate was asked for: that is no result.
func published(r Run) (float64, bool) { return r.PublishPerS, r.PublishPerS > 0 && r.Rate == 0 }

// positive reads a figure that is 0 where it was not measured.
func positive(of func(Run) float64) func(Run) (float64, bool) {
	return func(r Run) (float64, bool) { return of(r), of(r) > 0 }
}

// A broker's memory moves by some per cent by itself. What waits is told from that if it made the
// broker grow by a tenth.
const memoryPart = 0.1

func memoryOf(r Run) (float64, bool) {
	return r.MemoryPerMessage, r.MemoryPerMessage != 0 && !r.vagueMemory()
}

// vagueMemory reports whether the broker grew too little for a figure, or shrank. Older reports
// have 0 for that.
func (r Run) vagueMemory() bool {
	grown := r.MemoryPerMessage * float64(r.Waiting)
	return r.Scenario == "backlog" && r.Waiting > 0 && r.BrokerRSS > 0 && grown < memoryPart*(float64(r.BrokerRSS)-grown)
}

func lateness(of func(Lateness) float64) func(Run) (float64, bool) {
	return func(r Run) (float64, bool) { return of(r.Lateness), r.Delivered > 0 && !r.closedLoop() && !r.noRate() }
}

// noRate reports whether no rate passed that was tried: then there is none whose lateness is told.
func (r Run) noRate() bool { return len(r.Probes) > 0 && r.MaxRate == 0 }

func counted(of func(Run) int) func(Run) (float64, bool) {
	return func(r Run) (float64, bool) { return float64(of(r)), r.Published > 0 }
}

// costliest is the broker's processor time for a message whose delay has the most set bits that
// were tried.
func costliest(r Run) float64 {
	if len(r.ByHops) == 0 {
		return 0
	}
	return slices.MaxFunc(r.ByHops, func(a, b HopCost) int { return a.Hops - b.Hops }).BrokerCPU
}

// closedLoop reports whether a subject that was slow was asked for less, as in scenario cost. In
// older reports accuracy was so: how late it was says nothing beside another subject.
func (r Run) closedLoop() bool {
	return r.Scenario == "cost" || r.Scenario == "accuracy" && r.Rate == 0
}

// in says whether the scenario has the measure.
func (m measure) in(scenario string) bool {
	return m.scenarios == nil || slices.Contains(m.scenarios, scenario)
}

// of is the median of the repetitions. Faults are summed: a median would hide what happened once.
func (m measure) of(runs []Run) (v float64, known bool) {
	values := m.values(runs)
	if !m.fault {
		return median(values), len(values) > 0
	}
	for _, one := range values {
		v += one
	}
	return v, len(values) > 0
}

// spread is the median of the repetitions, the lowest and the highest; all 0 if none is known.
func (m measure) spread(runs []Run) (middle, lowest, highest float64) {
	values := m.values(runs)
	if len(values) == 0 {
		return 0, 0, 0
	}
	return median(values), slices.Min(values), slices.Max(values)
}

func (m measure) values(runs []Run) []float64 {
	var out []float64
	for _, run := range runs {
		if v, known := m.value(run); known {
			out = append(out, v)
		}
	}
	return out
}

func (m measure) text(v float64, known bool) string {
	switch {
	case !known:
		return "–"
	case m.fault:
		return format.Thousands(int(v))
	case m.higher && v == 0:
		return "none"
	}
	return format.Figure(v)
}

// median of an even number of values is the mean of the two in the middle; of none, 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// find returns the measure of that name.
func find(name string) measure {
	return measures[slices.IndexFunc(measures, func(m measure) bool { return m.name == name })]
}
