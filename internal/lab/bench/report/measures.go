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
	fault      bool     // counts what must not happen: summed, and in no table
	wide       bool     // a column of report.html alone: a terminal is narrow
	value      func(Run) (v float64, known bool)
}

// timed are the scenarios that tell how late messages are. Scenario cost asks a slow subject for
// less, so its lateness says nothing.
var timed = []string{"accuracy", "hol", "rate", "backlog"}

// measures are the columns, in order.
var measures = []measure{
	{name: "publish", unit: "msg/s", scenarios: []string{"cost", "backlog"}, higher: true,
		value: positive(func(r Run) float64 { return r.PublishPerS })},
	{name: "broker CPU", unit: "µs/msg", scenarios: []string{"accuracy", "cost"},
		value: positive(func(r Run) float64 { return r.BrokerCPU })},
	{name: "client CPU", unit: "µs/msg", scenarios: []string{"accuracy", "cost"},
		value: positive(func(r Run) float64 { return r.ProcessCPU })},
	{name: "queues", unit: "each", scenarios: []string{"accuracy", "cost"},
		value: positive(func(r Run) float64 { return r.Hops })},
	{name: "publish p50", unit: "ms", scenarios: []string{"accuracy"}, wide: true,
		value: positive(func(r Run) float64 { return r.Publish.P50 })},
	{name: "in time to", unit: "msg/s", scenarios: []string{"rate"}, higher: true,
		value: func(r Run) (float64, bool) { return r.MaxRate, len(r.Probes) > 0 }},
	{name: "memory", unit: "B/msg", scenarios: []string{"backlog"},
		value: func(r Run) (float64, bool) {
			return r.MemoryPerMessage, r.MemoryPerMessage != 0 && !r.vagueMemory()
		}},
	{name: "disk", unit: "B/msg", scenarios: []string{"backlog"},
		value: positive(func(r Run) float64 { return r.DiskPerMessage })},
	{name: "late p50", unit: "ms", scenarios: timed, value: lateness(func(l Percentiles) float64 { return l.P50 })},
	{name: "p90", unit: "ms", scenarios: timed, wide: true, value: lateness(func(l Percentiles) float64 { return l.P90 })},
	{name: "p99", unit: "ms", scenarios: timed, value: lateness(func(l Percentiles) float64 { return l.P99 })},
	{name: "max", unit: "ms", scenarios: timed, value: lateness(func(l Percentiles) float64 { return l.Max })},
	{name: "lost", unit: "msg", fault: true, value: counted(func(r Run) int { return r.Lost })},
	{name: "twice", unit: "msg", fault: true, value: counted(func(r Run) int { return r.Duplicated })},
	{name: "early", unit: "msg", fault: true, value: counted(func(r Run) int { return r.Early })},
}

func positive(of func(Run) float64) func(Run) (float64, bool) {
	return func(r Run) (float64, bool) { return of(r), of(r) > 0 }
}

// lateness reads a percentile. In scenario rate there is none if no rate passed.
func lateness(of func(Percentiles) float64) func(Run) (float64, bool) {
	return func(r Run) (float64, bool) {
		return of(r.Lateness), r.Delivered > 0 && (len(r.Probes) == 0 || r.MaxRate > 0)
	}
}

func counted(of func(Run) int) func(Run) (float64, bool) {
	return func(r Run) (float64, bool) { return float64(of(r)), r.Published > 0 }
}

// vagueMemory reports whether the broker grew by less than a tenth, or shrank. A broker's memory
// moves by some per cent by itself, so that is no figure.
func (r Run) vagueMemory() bool {
	grown := r.MemoryPerMessage * float64(r.Waiting)
	return r.Scenario == "backlog" && r.Waiting > 0 && r.BrokerRSS > 0 && grown < 0.1*(float64(r.BrokerRSS)-grown)
}

func (m measure) in(scenario string) bool {
	return m.scenarios == nil || slices.Contains(m.scenarios, scenario)
}

// A spread is the median of the repetitions of a run, the lowest and the highest.
type spread struct {
	median, low, high float64
	runs              int // with the figure
}

// of is the spread of the repetitions. Faults are summed: a median would hide what happened once.
func (m measure) of(runs []Run) spread {
	var values []float64
	sum := 0.0
	for _, run := range runs {
		if v, known := m.value(run); known {
			values, sum = append(values, v), sum+v
		}
	}
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	n := len(values)
	middle := (values[(n-1)/2] + values[n/2]) / 2
	if m.fault {
		return spread{sum, sum, sum, n}
	}
	return spread{middle, values[0], values[n-1], n}
}

func (m measure) cell(runs []Run) cell {
	s := m.of(runs)
	text := func(v float64) string {
		if m.higher && v == 0 {
			return "none"
		}
		return format.Figure(v)
	}
	low, high := text(s.low), text(s.high)
	switch {
	case s.runs == 0:
		return cell{Median: "–"}
	case low == high:
		return cell{Median: low}
	}
	return cell{text(s.median), low + "–" + high}
}
