package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/internal/format"
)

// A condition belongs to the job of a subject: one that breaks it in any run can win nothing.
type condition struct {
	says   string
	broken func(bench.Run) string // how the run breaks it, or ""
}

// mostLate is how late p99 may be, in milliseconds.
const mostLate = 1000.0

// job is what a subject must do to win anything.
var job = []condition{
	{"It delays.", func(r bench.Run) string {
		if r.Undelayed {
			return "does not delay"
		}
		return ""
	}},
	{"No message is early.", func(r bench.Run) string { return some(r.Early, "early") }},
	{"No message is lost, except in an outage that it does not claim to survive.", func(r bench.Run) string {
		if r.LossDeclared {
			return ""
		}
		return some(r.Lost, "lost")
	}},
	{"No message comes twice, except in an outage.", func(r bench.Run) string {
		if r.Outage {
			return ""
		}
		return some(r.Duplicated, "twice")
	}},
	{"Every message can be published, and no run fails.", func(r bench.Run) string {
		if r.Failed == 0 && r.Error != "" {
			return "a run failed"
		}
		return some(r.Failed, "failed to publish")
	}},
	{"99 % of the messages are at most 1 s late in accuracy, hol and hol-mix.", func(r bench.Run) string {
		if !Late(r) {
			return ""
		}
		return fmt.Sprintf("p99 %.1f s late", r.Lateness.P99/1000)
	}},
}

// Late says that the run breaks the condition about lateness.
func Late(r bench.Run) bool {
	return slices.Contains([]string{"accuracy", "hol", "hol-mix"}, r.Scenario) && r.Delivered > 0 &&
		r.Lateness.P99 > mostLate
}

func some(n int, what string) string {
	if n == 0 {
		return ""
	}
	return format.Thousands(n) + " " + what
}

// faults are the conditions that the runs of one subject break, each at its first run that does.
func faults(runs []bench.Run) []string {
	var out []string
	for _, c := range job {
		for _, run := range runs {
			if how := c.broken(run); how != "" {
				out = append(out, fmt.Sprintf("%s (%s)", how, run.Scenario))
				break
			}
		}
	}
	return out
}

// A subject is what is measured, with one type of queue.
type subject struct{ name, queueType string }

func subjectOf(r bench.Run) subject { return subject{r.Subject(), r.QueueType} }

// unfit holds the faults of the subjects that do not do the job.
func unfit(r *bench.Report) map[subject]string {
	out := map[subject]string{}
	for _, runs := range groupBy(r.Runs, func(run bench.Run) string { return run.QueueType + run.Subject() }) {
		if broken := faults(runs); len(broken) > 0 {
			out[subjectOf(runs[0])] = strings.Join(broken, ", ")
		}
	}
	return out
}

// Job says what a subject must do to win anything.
func Job() []string {
	says := make([]string, len(job))
	for i, c := range job {
		says[i] = c.says
	}
	return says
}
