package leader

import (
	"fmt"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// A Ring is a list of slots of the same width, one behind the other in time. When it has gone round
// each slot has its next turn. A record goes to a ring if it is due within Reach, and a slot is
// opened one Lead before its turn.
//
//	Reach ≤ (Slots - 1) · Width - Linger
//	Reach ≥ Width + Lead of the next ring
//
// The first keeps a slot from being written for its next turn while it is open for this one; the
// second lets all of a slot go down to the next shorter ring as soon as it is opened.
type Ring struct {
	Name   string // in the names of its queues
	Slots  int
	Width  time.Duration
	Reach  time.Duration
	Lead   time.Duration
	Linger time.Duration // a slot stays open for so long after its turn; only the first ring does
}

// Rings are a list of them, the shortest first.
type Rings []Ring

// Default are the rings of every topology.
func Default() Rings {
	return Rings{
		{Name: "4s", Slots: 14, Width: bundle.Widths[0], Reach: 40 * time.Second, Lead: 4 * time.Second, Linger: 10 * time.Second},
		{Name: "32s", Slots: 9, Width: bundle.Widths[1], Reach: 224 * time.Second, Lead: 6 * time.Second},
		{Name: "200s", Slots: 9, Width: bundle.Widths[2], Reach: 1400 * time.Second, Lead: 20 * time.Second},
		{Name: "20m", Slots: 8, Width: bundle.Widths[3], Reach: 2 * time.Hour, Lead: 3 * time.Minute},
		{Name: "100m", Slots: 8, Width: bundle.Widths[4], Reach: 10 * time.Hour, Lead: 18 * time.Minute},
		{Name: "8h", Slots: 7, Width: bundle.Widths[5], Reach: 40 * time.Hour, Lead: 100 * time.Minute},
	}
}

// String lists the rings: two topologies that share queues must be equal.
func (r Rings) String() string {
	var all []string
	for _, ring := range r {
		all = append(all, fmt.Sprintf("%dx%v", ring.Slots, ring.Width))
	}
	return strings.Join(all, "+")
}

// A Queue is the log, or a slot.
type Queue struct{ Ring, Index int }

// Log is the queue to which publishers write. Whoever consumes it leads.
var Log = Queue{Ring: -1}

// Slots lists all slots.
func (r Rings) Slots() (all []Queue) {
	for ring := range r {
		for index := range r[ring].Slots {
			all = append(all, Queue{ring, index})
		}
	}
	return all
}

// Slot is the slot that serves in a turn.
func (r Rings) Slot(t bundle.Turn) Queue {
	return Queue{t.Level, int(t.Number % int64(r[t.Level].Slots))}
}

// valid reports whether there is such a turn.
func (r Rings) valid(t bundle.Turn) bool { return t.Level >= 0 && t.Level < len(r) && t.Number >= 0 }

// at is the turn of a ring at a time.
func (r Rings) at(ring int, t time.Time) bundle.Turn {
	return bundle.Turn{Level: ring, Number: t.UnixMilli() / r[ring].Width.Milliseconds()}
}

func (r Rings) begin(t bundle.Turn) time.Time {
	return time.UnixMilli(t.Number * r[t.Level].Width.Milliseconds())
}
func (r Rings) end(t bundle.Turn) time.Time { return r.begin(t).Add(r[t.Level].Width) }

// place returns where a record waits that is due then: in the shortest ring that reaches so far.
// What none reaches passes the last ring again.
func (r Rings) place(now, due time.Time) bundle.Turn {
	for ring := range r {
		if due.Sub(now) <= r[ring].Reach {
			return r.at(ring, due)
		}
	}
	last := len(r) - 1
	return r.at(last, now.Add(r[last].Reach))
}

// Opens is when the slot of a turn is opened.
func (r Rings) Opens(t bundle.Turn) time.Time { return r.begin(t).Add(-r[t.Level].Lead) }
