package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// A condition is part of the job: a subject that breaks it in any run can win nothing.
type condition struct {
	says   string
	broken func(Run) string // how the run breaks it, or ""
}

// mostLate is how late p99 may be, in milliseconds.
const mostLate = 1000.0

// job is what a subject must do to win anything.
var job = []condition{
	{"It delays.", func(r Run) string {
		if r.Undelayed {
			return "does not delay"
		}
		return ""
	}},
	{"No message is early.", func(r Run) string { return some(r.Early, "early") }},
	{"No message is lost, except in an outage that it does not claim to survive.", func(r Run) string {
		if r.LossDeclared {
			return ""
		}
		return some(r.Lost, "lost")
	}},
	{"No message comes twice, except in an outage.", func(r Run) string {
		if r.Outage {
			return ""
		}
		return some(r.Duplicated, "twice")
	}},
	{"Every message can be published, and no run fails.", func(r Run) string {
		if r.Failed == 0 && r.Error != "" {
			return "a run failed"
		}
		return some(r.Failed, "failed to publish")
	}},
	{"99 % of the messages are at most 1 s late in accuracy, hol and hol-mix.", func(r Run) string {
		if !late(r) {
			return ""
		}
		return fmt.Sprintf("p99 %.1f s late", r.Lateness.P99/1000)
	}},
}

// late says whether the run breaks the condition about lateness.
func late(r Run) bool {
	return slices.Contains([]string{"accuracy", "hol", "hol-mix"}, r.Scenario) && r.Delivered > 0 &&
		!r.closedLoop() && r.Lateness.P99 > mostLate
}

func some(n int, what string) string {
	if n == 0 {
		return ""
	}
	return format.Thousands(n) + " " + what
}

// A contestant is a subject with one type of queue.
type contestant struct{ name, queueType string }

func contestantOf(r Run) contestant { return contestant{r.Subject(), r.QueueType} }

// unfit says of each subject that does not do the job which conditions it breaks, each with the
// first scenario in which it does.
func unfit(r *Report) map[contestant]string {
	out := map[contestant]string{}
	for _, runs := range groupBy(r.Runs, func(run Run) string { return run.QueueType + run.Subject() }) {
		var broken []string
		for _, c := range job {
			for _, run := range runs {
				if how := c.broken(run); how != "" {
					broken = append(broken, fmt.Sprintf("%s (%s)", how, run.Scenario))
					break
				}
			}
		}
		if len(broken) > 0 {
			out[contestantOf(runs[0])] = strings.Join(broken, ", ")
		}
	}
	return out
}
