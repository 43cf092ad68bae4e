package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// A Due is how many messages are due between two times.
type Due struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"` // not included
	Messages int       `json:"messages"`
}

// Overdue returns how many messages should have been delivered by now, and when the first of them
// was due. n is nil if the queues do not tell.
func (b Backend) Overdue(now time.Time) (n *int, since time.Time) {
	if b.Due == nil {
		return nil, since
	}
	n = new(int)
	for _, d := range b.Due {
		if !d.To.After(now) {
			if *n == 0 {
				since = d.From
			}
			*n += d.Messages
		}
	}
	return n, since
}

// dueTimes sums what slots hold: those of seconds by the minute, unless they are overdue.
func dueTimes(turns map[string]controller.Turn, states map[string]objects.State, now time.Time) []Due {
	type span struct{ from, to time.Time }
	sums := map[span]int{}
	for name, turn := range turns {
		n := states[name].Messages
		if n == 0 {
			continue
		}
		at := span{turn.Begin.UTC(), turn.End.UTC()}
		if at.to.After(now) && at.to.Sub(at.from) < time.Minute {
			at.from = at.from.Truncate(time.Minute)
			at.to = at.from.Add(time.Minute)
		}
		sums[at] += n
	}
	list := []Due{}
	for at, n := range sums {
		list = append(list, Due{From: at.from, To: at.to, Messages: n})
	}
	slices.SortFunc(list, func(a, b Due) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) })
	return list
}
