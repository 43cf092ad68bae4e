package bench

import (
	"fmt"
	"slices"
	"strings"
)

// decide says which to choose with this type of queue, and when another is better.
func (c contest) decide() Choice {
	d := Choice{QueueType: c.queueType, Grid: c.grid()}
	chosen, wins := c.choice()
	switch {
	case len(c.entries) < 2:
		d.Advice = fmt.Sprintf("On %s queues only %s was measured: there is nothing to compare it with.", c.queueType, c.entries[0].name)
	case chosen.name == "":
		d.Advice = fmt.Sprintf("On %s queues there is nothing to choose: nothing but a baseline did the job.", c.queueType)
	default:
		d.Advice = c.advice(chosen, wins)
		d.Others = c.rivals(chosen)
	}
	if losses := c.losses(); losses != "" {
		d.Others = append(d.Others, losses)
	}
	return d
}

// mostRivals keeps the verdict short: the table has the others.
const mostRivals = 3

// rivals are those that are ahead of the chosen one in most questions.
func (c contest) rivals(chosen entrant) []string {
	var ahead []entrant
	for _, e := range c.entries {
		if len(c.ahead(e, chosen)) > 0 {
			ahead = append(ahead, e)
		}
	}
	slices.SortStableFunc(ahead, func(a, b entrant) int { return len(c.ahead(b, chosen)) - len(c.ahead(a, chosen)) })
	var out []string
	for _, e := range ahead[:min(mostRivals, len(ahead))] {
		aside := onlyIf(e)
		if e.baseline {
			aside = ", a baseline,"
		}
		out = append(out, fmt.Sprintf("%s%s is ahead of it in %s.", e.name, aside, list(c.ahead(e, chosen))))
	}
	return out
}

// conditions are what a backend asks of its user that no figure shows: one with a condition is advised only to those
// who meet it.
var conditions = map[string]string{
	"fixedtiers": "if a few fixed delays are enough",
	"plugin":     "if the broker has and keeps the plugin",
	"controller": "if a controller always runs",
}

// choice is what to choose of what is no baseline and did the job: before all what lost nothing in a crash, then what
// has no condition, then what is best at most questions; of equals, the first.
func (c contest) choice() (chosen entrant, wins []question) {
	for _, e := range c.entries {
		if e.baseline || !e.competes() || c.failed(e) {
			continue
		}
		own := c.wins(e)
		if chosen.name == "" || preferred(e, chosen, len(own), len(wins)) {
			chosen, wins = e, own
		}
	}
	return chosen, wins
}

// preferred compares two with their numbers of best answers.
func preferred(a, b entrant, winsOfA, winsOfB int) bool {
	lostA, _, _ := a.crashed()
	lostB, _, _ := b.crashed()
	if (lostA == 0) != (lostB == 0) {
		return lostA == 0
	}
	if freeA, freeB := conditions[a.backend] == "", conditions[b.backend] == ""; freeA != freeB {
		return freeA
	}
	return winsOfA > winsOfB
}

// failed says that a run of the entrant has a problem.
func (contest) failed(e entrant) bool {
	for _, runs := range e.runs {
		for _, run := range runs {
			if run.Scenario != "crash" && run.Problem() != "" {
				return true
			}
		}
	}
	return false
}

func (c contest) advice(chosen entrant, wins []question) string {
	if len(wins) == 0 {
		return fmt.Sprintf("On %s queues choose %s%s: it does the job, if not best at any of these questions%s.",
			c.queueType, chosen.name, onlyIf(chosen), chosen.afterCrash())
	}
	prizes := make([]string, len(wins))
	for i, q := range wins {
		v, _ := chosen.answer(q)
		prizes[i] = fmt.Sprintf("%s (%s %s)", q.prize, q.text(v), q.unit)
	}
	return fmt.Sprintf("On %s queues choose %s%s: nothing is better in %s%s.", c.queueType, chosen.name, onlyIf(chosen),
		list(prizes), chosen.afterCrash())
}

// onlyIf is the condition of a backend, in parentheses, or "".
func onlyIf(e entrant) string {
	if condition := conditions[e.backend]; condition != "" {
		return " (" + condition + ")"
	}
	return ""
}

// afterCrash ends a sentence with what the crash cost.
func (e entrant) afterCrash() string {
	lost, of, known := e.crashed()
	switch {
	case !known:
		return ""
	case lost == 0:
		return "; it lost nothing in the crash"
	}
	return fmt.Sprintf("; but it lost %s of %s messages in the crash", thousands(int64(lost)), thousands(int64(of)))
}

// ahead says at what another is better than the chosen one.
func (c contest) ahead(e, chosen entrant) []string {
	var at []string
	for _, q := range c.wins(e) {
		v, _ := e.answer(q)
		if other, known := chosen.answer(q); e.name != chosen.name && known && !q.ties(other, v) {
			at = append(at, fmt.Sprintf("%s (%s against %s %s)", q.prize, q.text(v), q.text(other), q.unit))
		}
	}
	return at
}

// losses say how much was lost in the crash, by how many.
func (c contest) losses() string {
	var lossy []string
	tried, least, most, of := 0, 0, 0, 0
	for _, e := range c.entries {
		lost, out, known := e.crashed()
		tried += one(known)
		if lost == 0 {
			continue
		}
		if len(lossy) == 0 || lost < least {
			least = lost
		}
		most, of = max(most, lost), max(of, out)
		lossy = append(lossy, e.name)
	}
	switch {
	case len(lossy) == 0:
		return ""
	case len(lossy) < 3:
		return fmt.Sprintf("In the crash %s lost up to %s of %s messages on %s queues.", list(lossy),
			thousands(int64(most)), thousands(int64(of)), c.queueType)
	}
	return fmt.Sprintf("In the crash %d of %d subjects lost messages on %s queues: %s to %s of %s.", len(lossy), tried,
		c.queueType, thousands(int64(least)), thousands(int64(most)), thousands(int64(of)))
}

// warnings name what does not do the job, once for all types of queue.
func warnings(contests []contest) []string {
	var out []string
	for _, c := range contests {
		for _, e := range c.entries {
			if len(e.faults) == 0 || slices.ContainsFunc(out, func(s string) bool { return strings.HasPrefix(s, e.name+", ") }) {
				continue
			}
			out = append(out, fmt.Sprintf("%s, with %s queues, %s: it does not compete.", e.name, c.queueType, list(e.faults)))
		}
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
