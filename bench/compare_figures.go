package bench

import (
	"fmt"
	"slices"
)

// compared is a figure that two reports are compared by.
type compared struct {
	name, unit string
	highest    bool // higher is better
	fault      bool // a count of what must not happen: summed
	late       bool // a lateness: a millisecond is nothing
	value      func(Run) (v float64, known bool)
}

// of is the figure of all repetitions.
func (f compared) of(runs []Run) (float64, bool) {
	var values []float64
	sum := 0.0
	for _, run := range runs {
		if v, known := f.value(run); known {
			values = append(values, v)
			sum += v
		}
	}
	if f.fault {
		return sum, len(values) > 0
	}
	return median(values), len(values) > 0
}

// judgedByMeasure leaves out the figures of the tables that say nothing between two reports: p90 follows p99, and the
// maximum is a single message.
var judgedByMeasure = map[string]string{"late p50": "late p50", "p99": "late p99"}

// figuresToCompare are the figures of a scenario; runs say which numbers of hops there are.
func figuresToCompare(scenario string, runs []Run) []compared {
	var out []compared
	for _, m := range measures {
		if len(m.scenarios) > 0 && !slices.Contains(m.scenarios, scenario) {
			continue
		}
		name, late := judgedByMeasure[m.name]
		if !late {
			if m.name == "p90" || m.name == "max" {
				continue
			}
			name = m.name
		}
		out = append(out, compared{name, m.unit, m.highest, m.fault, late || m.unit == "ms", m.known})
	}
	out = append(out, failed)
	for _, h := range runs[0].ByHops {
		out = append(out, hopFigure(h.Hops))
	}
	return out
}

// known reads the figure from a run that has it: 0 is a lateness, a count, and the highest rate if none was in time;
// of any other measure it is what was not measured.
func (m measure) known(r Run) (float64, bool) {
	v := m.value(r)
	switch {
	case m.fault:
		return v, true
	case m.name == "in time to":
		return v, len(r.Probes) > 0
	case m.name == "publish" && r.Rate > 0:
		return v, false // it was asked for
	case len(m.scenarios) > 0:
		return v, v != 0
	}
	return v, r.Delivered > 0
}

// failed is compared in every scenario.
var failed = compared{name: "failed", unit: "runs", fault: true,
	value: func(r Run) (float64, bool) { return float64(one(r.Error != "")), true }}

func hopFigure(hops int) compared {
	return compared{name: fmt.Sprintf("CPU, %d hops", hops), unit: "µs/msg", value: func(r Run) (float64, bool) {
		i := slices.IndexFunc(r.ByHops, func(h HopCost) bool { return h.Hops == hops && h.BrokerCPU > 0 })
		if i < 0 {
			return 0, false
		}
		return r.ByHops[i].BrokerCPU, true
	}}
}

// settings are how the reports themselves differ.
func settings(a, b *Report) []string {
	var out []string
	note := func(what, before, after string) {
		if before != after {
			out = append(out, fmt.Sprintf("%s: %s, then %s", what, before, after))
		}
	}
	note("broker", a.Broker.Product+" "+a.Broker.Version+", "+a.Broker.How, b.Broker.Product+" "+b.Broker.Version+", "+b.Broker.How)
	note("machine", a.Machine.describe(), b.Machine.describe())
	if a.Partial {
		out = append(out, "the first report is partial")
	}
	if b.Partial {
		out = append(out, "the second report is partial")
	}
	return out
}

func (m Machine) describe() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", m.CPUs, m.OS, m.Arch, m.Go)
}

// asked is how what was published differs. The scenario rate finds out how much that is.
func asked(a keyed, b []Run) []string {
	say := func(r Run) string {
		return fmt.Sprintf("%s messages, %s, %d publishers, %s", thousands(int64(r.Messages)), pace(r.Rate), r.Concurrency,
			span(delayOf(r.DelayMinMS), delayOf(r.DelayMaxMS)))
	}
	before, after := a.runs[0], b[0]
	if len(before.Probes)+len(after.Probes) > 0 {
		before.Messages, before.Rate, after.Messages, after.Rate = 0, 0, 0, 0
	}
	if say(before) == say(after) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s, then %s", a.key, say(before), say(after))}
}
