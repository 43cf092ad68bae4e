package bench

import (
	"errors"
	"fmt"
	"slices"
)

// ErrNothingInCommon is returned by Compare where no run of one report has its like in the other.
var ErrNothingInCommon = errors.New("nothing in common: no scenario was run with the same subject and queue type in both reports")

// A Comparison is what changed from one report to another.
type Comparison struct {
	Tolerance float64 // as a part: 0.2 is 20 %
	// Changes are the figures that both reports have, in the order of the first.
	Changes []Change
	// OnlyA and OnlyB name the runs that the other report lacks.
	OnlyA, OnlyB []string
	// Settings are differences in what was measured and where, which explain others.
	Settings []string
}

// A Change is one figure in both reports: the median of the repetitions, of faults the sum.
type Change struct {
	Scenario, Subject, QueueType string
	Figure, Unit                 string
	Before, After                float64
	Part                         float64 // by which part After is above Before; 0 if Before is 0
	Worse                        bool    // in the direction that is worse, by whatever amount
	Beyond                       bool    // by more than the tolerance
	fault                        bool
}

// slack is a difference in milliseconds that never counts: the broker's resolution.
const slack = 1.0

// Compare says what changed from a to b. A figure is beyond the tolerance, a part of its value in a, where it is
// higher or lower by more; a lateness also by more than a millisecond. What b lost, delivered early or twice and a
// did not is always beyond it. The error is ErrNothingInCommon, or about the tolerance.
func Compare(a, b *Report, tolerance float64) (Comparison, error) {
	if !(tolerance >= 0) {
		return Comparison{}, fmt.Errorf("a tolerance of %g: it cannot be negative", tolerance)
	}
	c := Comparison{Tolerance: tolerance, Settings: settings(a, b)}
	before, after := a.byKey(), b.byKey()
	for _, group := range before {
		if other, ok := find(after, group.key); ok {
			c.Changes = append(c.Changes, c.changes(group, other)...)
			c.Settings = append(c.Settings, asked(group, other)...)
		} else {
			c.OnlyA = append(c.OnlyA, group.key.String())
		}
	}
	for _, group := range after {
		if _, ok := find(before, group.key); !ok {
			c.OnlyB = append(c.OnlyB, group.key.String())
		}
	}
	if len(c.Changes) == 0 {
		return c, ErrNothingInCommon
	}
	return c, nil
}

// Worse says that something got worse beyond the tolerance.
func (c Comparison) Worse() bool {
	return slices.ContainsFunc(c.Changes, func(ch Change) bool { return ch.Worse && ch.Beyond })
}

// A key is what makes runs of two reports comparable.
type key struct{ scenario, subject, queueType string }

func (k key) String() string {
	return fmt.Sprintf("%s, %s, %s queues", k.scenario, k.subject, k.queueType)
}

type keyed struct {
	key  key
	runs []Run
}

func (r *Report) byKey() []keyed {
	var out []keyed
	for _, t := range r.Tables() {
		for _, row := range t.Rows {
			out = append(out, keyed{key{t.Scenario.Name, row.Name, t.QueueType}, row.Runs})
		}
	}
	return out
}

func find(groups []keyed, k key) ([]Run, bool) {
	i := slices.IndexFunc(groups, func(g keyed) bool { return g.key == k })
	if i < 0 {
		return nil, false
	}
	return groups[i].runs, true
}

// changes compares the repetitions of one subject in one scenario.
func (c Comparison) changes(a keyed, b []Run) []Change {
	first := Change{Scenario: a.key.scenario, Subject: a.key.subject, QueueType: a.key.queueType}
	var out []Change
	for _, f := range figuresToCompare(a.key.scenario, a.runs) {
		before, knownBefore := f.of(a.runs)
		after, knownAfter := f.of(b)
		if !knownBefore || !knownAfter {
			continue
		}
		ch := first
		ch.Figure, ch.Unit, ch.Before, ch.After, ch.fault = f.name, f.unit, before, after, f.fault
		out = append(out, ch.judged(f, c.Tolerance))
	}
	return out
}

// judged says which way the figure went, and whether too far.
func (ch Change) judged(f compared, tolerance float64) Change {
	apart := ch.After - ch.Before
	if ch.Before != 0 {
		ch.Part = apart / ch.Before
	}
	ch.Worse = apart > 0 != f.highest && apart != 0
	switch {
	case ch.Before == 0:
		ch.Beyond = apart != 0 && !(f.late && apart <= slack)
	case f.late && max(apart, -apart) <= slack:
	default:
		ch.Beyond = max(ch.Part, -ch.Part) > tolerance
	}
	return ch
}
