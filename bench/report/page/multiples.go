package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/internal/format"
	"github.com/delayer-go/delayer/bench/report"
)

// A multiple is a panel in the making: a subject with its curve and what is said of it.
type multiple struct {
	name, class, verdict, words string
	curve                       curve
}

// multiples draws a panel for each subject, with the same axes; the other subjects' curves are
// faint behind its own.
func multiples(f figure, frame panel, queues string, each []multiple, ghosts bool) []figure {
	if len(each) == 0 {
		return nil
	}
	f.Small = true
	for _, p := range panels(f.ID, f.Title+", "+queues, frame, each, ghosts) {
		f.Pictures = append(f.Pictures, p.draw())
	}
	return []figure{f}
}

func panels(id, about string, frame panel, each []multiple, ghosts bool) []panel {
	out := make([]panel, len(each))
	for i, m := range each {
		p := frame
		p.id, p.title, p.class, p.verdict, p.own = fmt.Sprintf("%s-%d", id, i+1), m.name, m.class, m.verdict, m.curve
		p.words = about + ". " + m.words
		for j, other := range each {
			if ghosts && i != j {
				p.others = append(p.others, other.curve)
			}
		}
		out[i] = p
	}
	return out
}

// blocking shows when each message was due and when it arrived.
func blocking(id string, t report.Table) []figure {
	f := figure{ID: id, Title: "Due against arrival", Table: holTable(t), Small: true,
		Key: "Each dot is a message. On the dashed diagonal it arrives when it is due; above it, it is late."}
	for _, p := range blockingPanels(id, t) {
		f.Pictures = append(f.Pictures, p.draw())
	}
	if len(f.Pictures) == 0 {
		return nil
	}
	return []figure{f}
}

func holTable(t report.Table) report.Grid {
	g := report.Grid{Title: "Due against arrival, " + t.Grid.Title, Head: []report.Column{{Name: "subject", Left: true},
		{Name: "in time"}, {Name: "late p50", Unit: "ms"}, {Name: "p90", Unit: "ms"}, {Name: "p99", Unit: "ms"}, {Name: "max", Unit: "ms"}}}
	for _, row := range t.Rows {
		run, inTime := row.First(), "yes"
		if report.Late(run) {
			inTime = "no"
		}
		l := run.Lateness
		g.Rows = append(g.Rows, report.Texts(row.Name, inTime, format.Figure(l.P50), format.Figure(l.P90), format.Figure(l.P99), format.Figure(l.Max)))
	}
	return g
}

// probeTable has a row for each rate that was tried.
func probeTable(t report.Table) report.Grid {
	g := report.Grid{Title: "Lateness against rate, " + t.Grid.Title, Head: []report.Column{{Name: "subject", Left: true},
		{Name: "rate", Unit: "msg/s"}, {Name: "late p50", Unit: "ms"}, {Name: "p99", Unit: "ms"}, {Name: "in time"}}}
	for _, row := range t.Rows {
		for _, p := range bestByRate(row.First().Probes) {
			passed := "yes"
			if !p.Passed {
				passed = "no: " + p.Reason
			}
			g.Rows = append(g.Rows, report.Texts(row.Name, format.Figure(p.Rate), format.Figure(p.Lateness.P50), format.Figure(p.Lateness.P99), passed))
		}
	}
	return g
}

func blockingPanels(id string, t report.Table) []panel {
	var each []multiple
	var ends []float64
	for _, row := range t.Rows {
		run := row.First()
		if len(run.Points) == 0 {
			continue
		}
		own := curve{dots: true}
		for _, p := range run.Points {
			own.points = append(own.points, point{x: p.DueMS / 1000, y: p.ArrivedMS / 1000})
			ends = append(ends, p.DueMS/1000, p.ArrivedMS/1000)
		}
		each = append(each, multiple{row.Name, class(run), holVerdict(run), holWords(run), own})
	}
	both := axis{linear(ends), "", plain}
	frame := panel{x: both, y: both, diagonal: true}
	frame.x.name, frame.y.name = "due, s", "arrived, s"
	return panels(id, "Due against arrival, "+t.Grid.Title, frame, each, false)
}

func holVerdict(r bench.Run) string {
	if report.Late(r) {
		return "✕ late"
	}
	return "✓ in time"
}

func holWords(r bench.Run) string {
	return fmt.Sprintf("%s: %s; half of the short ones at most %s ms late, 99 %% at most %s ms.",
		r.Subject(), holVerdict(r)[len("✓ "):], format.Figure(r.Lateness.P50), format.Figure(r.Lateness.P99))
}

// probes shows how late p99 was at each rate that was tried.
func probes(id string, t report.Table) []figure {
	var each []multiple
	var rates, lates []float64
	for _, row := range t.Rows {
		run := row.First()
		if len(run.Probes) == 0 {
			continue
		}
		own := curve{}
		for _, p := range bestByRate(run.Probes) {
			own.points = append(own.points, point{p.Rate, p.Lateness.P99, !p.Passed})
			rates, lates = append(rates, p.Rate), append(lates, p.Lateness.P99)
		}
		verdict := "no rate in time"
		if run.MaxRate > 0 {
			verdict = format.Figure(run.MaxRate) + " msg/s"
		}
		each = append(each, multiple{row.Name, class(run), verdict,
			fmt.Sprintf("%s: in time up to %s messages a second.", row.Name, format.Figure(run.MaxRate)), own})
	}
	frame := panel{
		x: axis{logScale(rates, 1), "messages a second", plain}, y: axis{logScale(lates, 1), "p99 late", millis},
	}
	return multiples(figure{ID: id, Title: "Lateness against rate", Table: probeTable(t),
		Key: "Filled: in time at that rate. Hollow: not. The others are faint behind; both scales are logarithmic."},
		frame, t.Grid.Title, each, true)
}

// byDelay shows whether long delays are later than short ones.
func byDelay(id string, t report.Table) []figure {
	var each []multiple
	var delays, lates []float64
	for _, row := range t.Rows {
		run := row.First()
		if len(run.LatenessByStep) < 2 {
			continue
		}
		own := curve{}
		for _, s := range run.LatenessByStep {
			own.points = append(own.points, point{x: s.DelayMS / 1000, y: s.Lateness.P99})
			delays, lates = append(delays, s.DelayMS/1000), append(lates, s.Lateness.P99)
		}
		each = append(each, multiple{row.Name, class(run), "", row.Name + ": the table has every delay.", own})
	}
	frame := panel{x: axis{linear(delays), "delay, s", plain}, y: axis{logScale(lates, 1), "p99 late", millis}}
	return multiples(figure{ID: id, Title: "Lateness against the length of the delay", Table: t.ByDelay,
		Key: "Flat is good: a long delay is as exact as a short one. The others are faint behind."},
		frame, t.Grid.Title, each, true)
}

func hopCost(id string, t report.Table) []figure {
	return hops(t, figure{ID: id, Title: "Cost against hops", Key: "Broker CPU a message; lower is better. The others are faint behind."},
		"broker CPU, µs a message", func(h bench.HopCost) float64 { return h.BrokerCPU }, false)
}

func hopLateness(id string, t report.Table) []figure {
	return hops(t, figure{ID: id, Title: "Lateness against hops", Key: "p99; lower is better. The others are faint behind."},
		"p99 late", func(h bench.HopCost) float64 { return h.Lateness.P99 }, true)
}

func hops(t report.Table, f figure, name string, value func(bench.HopCost) float64, late bool) []figure {
	var each []multiple
	var counts, values []float64
	for _, row := range t.Rows {
		own := curve{}
		for _, h := range row.First().ByHops {
			if v := value(h); v > 0 {
				own.points = append(own.points, point{x: float64(h.Hops), y: v})
				counts, values = append(counts, float64(h.Hops)), append(values, v)
			}
		}
		if len(own.points) > 0 {
			each = append(each, multiple{row.Name, class(row.First()), "", row.Name + ": the table has every number of hops.", own})
		}
	}
	y := axis{linear(values), name, plain}
	if late {
		y = axis{logScale(values, 1), name, millis}
	}
	f.Table = t.ByHops
	return multiples(f, panel{x: axis{linear(counts), "set bits of the delay", plain}, y: y}, t.Grid.Title, each, true)
}

// bestByRate keeps the better of two attempts at the same rate, slowest rate first.
func bestByRate(probes []bench.Probe) []bench.Probe {
	best := map[float64]bench.Probe{}
	for _, p := range probes {
		if before, seen := best[p.Rate]; !seen || p.Passed && !before.Passed {
			best[p.Rate] = p
		}
	}
	out := make([]bench.Probe, 0, len(best))
	for _, p := range best {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b bench.Probe) int { return cmp.Compare(a.Rate, b.Rate) })
	return out
}
