package brokertime

import (
	"slices"
	"time"
)

// A Due is a due time by the broker's clock, in ms since 1970, and what that clock showed when it
// was reckoned. The zero value is none.
type Due struct{ At, Since int64 }

// LatestDue is after every due time: in the year 2500.
const LatestDue = 16_725_225_600_000

// Valid reports whether a Due may have been written by a Delayer.
func (d Due) Valid() bool {
	return d.At > 0 && d.At <= LatestDue && d.Since > 0 && d.Since <= LatestDue
}

// A Step is that the broker's clock was set forward.
type Step struct {
	By    time.Duration `json:"by"`    // at most
	Until time.Time     `json:"until"` // by the broker's clock: who tells a later time knew of the step
}

// Steps are in the order in which they happened.
type Steps []Step

const (
	// NoticedWithin is how long after a step a process may still tell the time of before. Within a
	// minute of the last answer it does not know the time any more; an answer that shows the step
	// comes within some 25 s.
	NoticedWithin = 2 * time.Minute
	// mostSteps are kept apart. A clock that is set again and again makes messages late, not the
	// list long.
	mostSteps = 32
)

// Shift is how much later, by the clock of now, a time is that was reckoned when the broker's clock
// was taken to show since: a duration that was counted from since ends later by each step forward
// that followed. It is never too little. A time that was reckoned shortly after a step may be
// shifted by that step although it knew of it.
func (s Steps) Shift(since time.Time) (by time.Duration) {
	for _, step := range s {
		if since.Add(by).Before(step.Until) {
			by += step.By
		}
	}
	return by
}

// with returns the steps with one more. Steps that follow each other closely become one, and so do
// the first if there are many.
func (s Steps) with(step Step) Steps {
	s = slices.Clone(s)
	last := len(s) - 1
	switch {
	case last >= 0 && step.Until.Before(s[last].Until.Add(NoticedWithin)):
		s[last] = s[last].and(step)
	default:
		s = append(s, step)
	}
	if len(s) > mostSteps {
		s[1] = s[0].and(s[1])
		s = s[1:]
	}
	return s
}

// and is one step for two.
func (s Step) and(next Step) Step {
	if s.Until.After(next.Until) {
		next.Until = s.Until
	}
	return Step{s.By + next.By, next.Until}
}

// total is the sum of all steps. Steps become one, but none is dropped.
func (s Steps) total() (by time.Duration) {
	for _, step := range s {
		by += step.By
	}
	return by
}

// A history is what this process knows of steps: what is recorded, and what it saw itself. Two
// processes see the same step at different times and to different milliseconds. So none says which
// step it was: each makes sure that the sum of what was recorded since it began to look is as large
// as what it saw. Its zero value knows nothing.
type history struct {
	record Steps         // of all records that were read, the one with the greatest sum
	shared time.Duration // recorded since this process began to look
	seen   time.Duration // seen by this process, settled
	until  time.Time     // of the last step that it saw
	last   time.Duration // the last step, which is still being measured; 0: none
	news   int           // how often the clock is yet to be verified until this process has seen all that is recorded, or never will
}

// began forgets what was recorded before this process looked at the clock.
func (h *history) began() { h.shared, h.seen, h.last, h.news = 0, 0, 0, 0 }

// step notes one more step. At first it is known to a second only.
func (h *history) step(by time.Duration, until time.Time) {
	h.settle()
	h.last, h.until = by, until
}

// refine notes that the last step was no longer than by.
func (h *history) refine(by time.Duration) { h.last = min(h.last, by) }

// settle notes that the last step will not be known better.
func (h *history) settle() { h.seen, h.last = h.seen+h.last, 0 }

// read takes a record over.
func (h *history) read(record Steps) {
	if more := record.total() - h.record.total(); more > 0 {
		h.shared += more
		h.record = record
		h.news = 2 // the first may have begun before
	}
}

// verified notes that what is known of the clock was verified. A step that was recorded before, and
// not seen by now, was before this process looked at the clock. It must not stand for the next one.
func (h *history) verified() {
	if h.news == 0 {
		return
	}
	if h.news--; h.news == 0 {
		h.seen = max(h.seen, h.shared)
	}
}

// steps are all that are known.
func (h *history) steps() Steps { return h.with(h.seen + h.last) }

// settled are all that are not being measured any more: what is to be recorded.
func (h *history) settled() Steps { return h.with(h.seen) }

func (h *history) with(seen time.Duration) Steps {
	if missing := seen - h.shared; missing > 0 {
		return h.record.with(Step{missing, h.until})
	}
	return h.record
}
