package bench

import (
	"fmt"
	"strings"
)

// sentences say which to choose with this type of queue, when another is better, and what to keep away from.
func (c contest) sentences() []string {
	chosen, wins := c.choice()
	if chosen.name == "" {
		return c.warnings()
	}
	out := []string{c.advice(chosen, wins)}
	for _, e := range c.entries {
		if e.name != chosen.name {
			if ahead := c.ahead(e, chosen); ahead != "" {
				out = append(out, ahead)
			}
		}
	}
	return append(out, c.warnings()...)
}

// conditions are what a backend asks of its user that no figure shows: one with a condition is advised only to those
// who meet it.
var conditions = map[string]string{
	"fixedtiers": "if a few fixed delays are enough",
	"plugin":     "if the broker has and keeps the plugin",
	"controller": "if a controller always runs",
}

// choice is what to choose: what is best at most questions, of what is no baseline, did the job, lost nothing in a
// crash and has no condition, if there is such a one; of equals, the first.
func (c contest) choice() (chosen entrant, wins []question) {
	for _, e := range c.entries {
		if lost, _, _ := e.crashed(); e.baseline || !e.competes() || lost > 0 || c.failed(e) {
			continue
		}
		own := c.wins(e)
		free, before := conditions[e.backend] == "", conditions[chosen.backend] == ""
		if chosen.name == "" || free && !before || free == before && len(own) > len(wins) {
			chosen, wins = e, own
		}
	}
	return chosen, wins
}

// failed says that a run of the entrant has a problem.
func (contest) failed(e entrant) bool {
	for _, runs := range e.runs {
		for _, run := range runs {
			if run.Problem() != "" {
				return true
			}
		}
	}
	return false
}

func (c contest) advice(chosen entrant, wins []question) string {
	if len(wins) == 0 {
		return fmt.Sprintf("On %s queues %s does the job; no figure sets it apart.", c.queueType, chosen.name)
	}
	prizes := make([]string, len(wins))
	for i, q := range wins {
		v, _ := chosen.answer(q)
		prizes[i] = fmt.Sprintf("%s (%s %s)", q.prize, q.text(v), q.unit)
	}
	crash := ""
	if _, _, known := chosen.crashed(); known {
		crash = "; it lost nothing in the crash"
	}
	return fmt.Sprintf("On %s queues choose %s: nothing is better in %s%s.", c.queueType, chosen.name, list(prizes), crash)
}

// ahead says at what another is better than the chosen one, or "".
func (c contest) ahead(e, chosen entrant) string {
	var at []string
	for _, q := range c.wins(e) {
		best, _ := c.best(q)
		other, known := chosen.answer(q)
		if v, _ := e.answer(q); known && !q.ties(other, best) {
			at = append(at, fmt.Sprintf("%s (%s against %s %s)", q.prize, q.text(v), q.text(other), q.unit))
		}
	}
	if len(at) == 0 {
		return ""
	}
	but := ""
	if lost, of, _ := e.crashed(); lost > 0 {
		but = fmt.Sprintf(", but lost %s of %s messages in the crash", thousands(int64(lost)), thousands(int64(of)))
	}
	aside := ""
	if e.baseline {
		aside = ", a baseline,"
	} else if condition := conditions[e.backend]; condition != "" {
		aside = " (" + condition + ")"
	}
	return fmt.Sprintf("%s%s is ahead of it in %s%s.", e.name, aside, list(at), but)
}

// warnings name what does not do the job, and what a crash costs.
func (c contest) warnings() []string {
	var out, crash []string
	for _, e := range c.entries {
		if len(e.faults) > 0 {
			out = append(out, fmt.Sprintf("%s %s.", e.name, list(e.faults)))
		}
		if lost, of, _ := e.crashed(); lost > 0 {
			crash = append(crash, fmt.Sprintf("%s %s of %s", e.name, thousands(int64(lost)), thousands(int64(of))))
		}
	}
	if len(crash) > 0 {
		out = append(out, fmt.Sprintf("Lost in the crash with %s queues: %s.", c.queueType, list(crash)))
	}
	return out
}

// list writes "a, b and c".
func list(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}
