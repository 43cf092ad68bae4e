package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// multiples draws the panels with the same axes. The curves of the other subjects are faint behind
// each.
func multiples(f figure, t table, x, y axis, each []panel) *figure {
	if len(each) == 0 {
		return nil
	}
	f.Small = true
	for i, p := range framed(f.ID, f.Title+", "+t.grid.Title, x, y, each) {
		for j, other := range each {
			if i != j {
				p.others = append(p.others, other.own)
			}
		}
		f.Pictures = append(f.Pictures, p.draw())
	}
	return &f
}

// framed gives panels their axes, and ids and descriptions of their own.
func framed(id, about string, x, y axis, each []panel) []panel {
	for i := range each {
		p := &each[i]
		p.id, p.x, p.y, p.words = fmt.Sprintf("%s-%d", id, i+1), x, y, about+". "+p.words
	}
	return each
}

// blocking shows when each message was due and when it arrived.
func blocking(id string, t table) *figure {
	f := figure{ID: id, Title: "Due against arrival", Small: true,
		Key: "Each dot is a message. On the dashed diagonal it arrives when it is due; above it, it is late."}
	f.Table = subjects(f.Title+", "+t.grid.Title, append([]column{{Name: "in time"}}, lateColumns("late p50")...)...)
	for _, row := range t.rows {
		run, inTime := row.first(), "yes"
		if late(run) {
			inTime = "no"
		}
		f.Table.Rows = append(f.Table.Rows, texts(append([]string{row.name, inTime}, run.Lateness.texts()...)...))
	}
	for _, p := range blockingPanels(id, t) {
		f.Pictures = append(f.Pictures, p.draw())
	}
	if len(f.Pictures) == 0 {
		return nil
	}
	return &f
}

func blockingPanels(id string, t table) []panel {
	var each []panel
	var ends []float64
	for _, row := range t.rows {
		run := row.first()
		if len(run.Points) == 0 {
			continue
		}
		p := panel{title: row.name, class: class(run), dots: true, verdict: "✓ in time"}
		if late(run) {
			p.verdict = "✕ late"
		}
		p.words = fmt.Sprintf("%s: %s; half of the short ones at most %s ms late, 99 %% at most %s ms.",
			run.Name(), p.verdict[len("✓ "):], format.Figure(run.Lateness.P50), format.Figure(run.Lateness.P99))
		for _, at := range run.Points {
			p.own = append(p.own, point{x: at.DueMS / 1000, y: at.ArrivedMS / 1000})
			ends = append(ends, at.DueMS/1000, at.ArrivedMS/1000)
		}
		each = append(each, p)
	}
	both := linear(ends)
	return framed(id, "Due against arrival, "+t.grid.Title, axis{both, "due, s", plain}, axis{both, "arrived, s", plain}, each)
}

// probes shows how late p99 was at each rate that was tried.
func probes(id string, t table) *figure {
	f := figure{ID: id, Title: "Lateness against rate",
		Key: "Filled: in time at that rate. Hollow: not. The others are faint behind; both scales are logarithmic."}
	f.Table = subjects(f.Title+", "+t.grid.Title, column{Name: "rate", Unit: "msg/s"},
		column{Name: "late p50", Unit: "ms"}, column{Name: "p99", Unit: "ms"}, column{Name: "in time"})
	var each []panel
	var rates, lates []float64
	for _, row := range t.rows {
		run := row.first()
		p := panel{title: row.name, class: class(run), verdict: "no rate in time",
			words: fmt.Sprintf("%s: in time up to %s messages a second.", row.name, format.Figure(run.MaxRate))}
		if run.MaxRate > 0 {
			p.verdict = format.Figure(run.MaxRate) + " msg/s"
		}
		for _, tried := range bestByRate(run.Probes) {
			passed := "yes"
			if !tried.Passed {
				passed = "no: " + tried.Reason
			}
			f.Table.Rows = append(f.Table.Rows, texts(row.name, format.Figure(tried.Rate),
				format.Figure(tried.Lateness.P50), format.Figure(tried.Lateness.P99), passed))
			p.own = append(p.own, point{tried.Rate, tried.Lateness.P99, !tried.Passed})
			rates, lates = append(rates, tried.Rate), append(lates, tried.Lateness.P99)
		}
		if len(p.own) > 0 {
			each = append(each, p)
		}
	}
	return multiples(f, t, axis{logScale(rates, 1), "messages a second", plain}, lateAxis(lates), each)
}

// bestByRate keeps the better of two attempts at the same rate, slowest rate first.
func bestByRate(probes []Probe) []Probe {
	out := slices.SortedStableFunc(slices.Values(probes), func(a, b Probe) int {
		return cmp.Or(cmp.Compare(a.Rate, b.Rate), cmp.Compare(passedFirst(a), passedFirst(b)))
	})
	return slices.CompactFunc(out, func(a, b Probe) bool { return a.Rate == b.Rate })
}

func passedFirst(p Probe) int {
	if p.Passed {
		return 0
	}
	return 1
}

// byDelay shows whether long delays are later than short ones.
func byDelay(id string, t table) *figure {
	f := figure{ID: id, Title: "Lateness against the length of the delay", Table: t.byDelay,
		Key: "Flat is good: a long delay is as exact as a short one. The others are faint behind."}
	return curves(f, t, "delay, s", lateAxis, "delay", func(r Run) (points []point) {
		for _, s := range r.LatenessByStep {
			points = append(points, point{x: s.DelayMS / 1000, y: s.Lateness.P99})
		}
		if len(points) < 2 || r.closedLoop() {
			return nil
		}
		return points
	})
}

func hopCost(id string, t table) *figure {
	f := figure{ID: id, Title: "Cost by set bits", Key: "Broker CPU a message; lower is better. The others are faint behind.", Table: t.byHops}
	return curves(f, t, "set bits of the delay", costAxis, "number of set bits",
		hopPoints(func(h HopCost) float64 { return h.BrokerCPU }))
}

func hopLateness(id string, t table) *figure {
	f := figure{ID: id, Title: "Lateness by set bits", Key: "p99; lower is better. The others are faint behind.", Table: t.byHops}
	return curves(f, t, "set bits of the delay", lateAxis, "number of set bits",
		hopPoints(func(h HopCost) float64 { return h.Lateness.P99 }))
}

func hopPoints(value func(HopCost) float64) func(Run) []point {
	return func(r Run) (points []point) {
		for _, h := range r.ByHops {
			if v := value(h); v > 0 {
				points = append(points, point{x: float64(h.Hops), y: v})
			}
		}
		return points
	}
}

// curves draws a curve for each subject that has points.
func curves(f figure, t table, x string, y func([]float64) axis, every string, of func(Run) []point) *figure {
	var each []panel
	var xs, ys []float64
	for _, row := range t.rows {
		points := of(row.first())
		if len(points) == 0 {
			continue
		}
		for _, p := range points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
		each = append(each, panel{title: row.name, class: class(row.first()), own: points,
			words: row.name + ": the table has every " + every + "."})
	}
	return multiples(f, t, axis{linear(xs), x, plain}, y(ys), each)
}

func lateAxis(values []float64) axis { return axis{logScale(values, 1), "p99 late", millis} }
func costAxis(values []float64) axis { return axis{linear(values), "broker CPU, µs a message", plain} }
