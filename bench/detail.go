package bench

import (
	"fmt"
	"strconv"
	"time"
)

// ByDelay returns tables that say how late each delay was, where a scenario had several.
func (r *Report) ByDelay() []Grid {
	var out []Grid
	for _, group := range groupBy(r.Runs, table) {
		if g := byDelay(group); len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func byDelay(runs []Run) Grid {
	g := Grid{
		Title:    fmt.Sprintf("%s by delay, %s queues", runs[0].Scenario, runs[0].QueueType),
		Question: "is a long delay less exact than a short one?",
		Setup:    "p50 / p99 late in ms, by delay; first repetition",
		Head:     []Column{{Name: "subject", Left: true}},
	}
	for _, run := range runs {
		if run.Repetition > 1 || len(run.LatenessByStep) < 2 {
			continue
		}
		row := []Cell{{Text: run.Subject()}}
		for _, step := range run.LatenessByStep {
			row = append(row, Cell{Text: lateCell(step.Lateness)})
			if len(g.Rows) == 0 {
				g.Head = append(g.Head, Column{Name: delayOf(step.DelayMS).String()})
			}
		}
		// Where some delay did not arrive at all the columns would not match.
		if len(row) == len(g.Head) {
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}

// byHops says what each number of hops cost, and how late it was.
func byHops(runs []Run) Grid {
	g := Grid{
		Title:    fmt.Sprintf("%s by set bits, %s queues", runs[0].Scenario, runs[0].QueueType),
		Question: "what does a hop cost?",
		Setup:    "broker CPU in µs/msg · p99 late in ms, by the number of set bits of the delay; first repetition",
		Head:     []Column{{Name: "subject", Left: true}},
	}
	for _, run := range runs {
		if run.Repetition > 1 || len(run.ByHops) == 0 {
			continue
		}
		row := []Cell{{Text: run.Subject()}}
		for _, cost := range run.ByHops {
			row = append(row, Cell{Text: known(cost.BrokerCPU) + " · " + figure(cost.Lateness.P99)})
			if len(g.Rows) == 0 {
				g.Head = append(g.Head, Column{Name: strconv.Itoa(cost.Hops)})
			}
		}
		if len(row) == len(g.Head) {
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}

func lateCell(l Lateness) string { return figure(l.P50) + " / " + figure(l.P99) }

func delayOf(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
