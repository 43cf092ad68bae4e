package outbox

import (
	"math"
	"strconv"
	"sync"
	"time"
)

// A cursor remembers up to where the index of the table was read, so that a relay does not read
// from its beginning each time. Vacuum cannot remove the index entries of published rows while an
// older transaction is open anywhere in the database: without a cursor each look passes over all of
// them.
//
// Rows can appear before the cursor: a transaction commits later than another that enqueued after
// it, or a relay that had locked rows is killed. A notification says when its transaction began,
// and moves the cursor back there. Every [Config].Poll, or later if that takes long, a look begins
// at the beginning.
type cursor struct {
	mu     sync.Mutex
	after  place // a zero place is the beginning
	looks  map[*look]struct{}
	whole  time.Time     // when the last look from the beginning began
	lasted time.Duration // how long it took
}

// A place is a position in the index: rows are ordered by the time of their next try and by id.
type place struct {
	at time.Time
	id int64
}

// time is nil for the beginning.
func (p place) time() *time.Time {
	if p.at.IsZero() {
		return nil
	}
	return &p.at
}

func (p place) before(q place) bool {
	if c := p.at.Compare(q.at); c != 0 {
		return c < 0
	}
	return p.id < q.id
}

// A look is one reading of the index.
type look struct {
	after place
	back  *place // to where the cursor was moved meanwhile
}

// wholeShare bounds what looks from the beginning cost: they take a tenth of the time at most.
const wholeShare = 10

// begin begins a look. It ends with end.
func (c *cursor) begin(now time.Time, poll time.Duration) *look {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &look{after: c.after}
	if now.Sub(c.whole) >= max(poll, wholeShare*c.lasted) {
		l.after, c.whole = place{}, now
	}
	if c.looks == nil {
		c.looks = map[*look]struct{}{}
	}
	c.looks[l] = struct{}{}
	return l
}

// end moves the cursor on: l has read up to a place. It may not have seen what was notified
// meanwhile.
func (c *cursor) end(l *look, upTo place, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.looks, l)
	if l.back != nil && l.back.before(upTo) {
		upTo = *l.back
	}
	whole := l.after == place{}
	if whole {
		c.lasted = took
	}
	if whole || c.after.before(upTo) {
		c.after = upTo
	}
}

// rewind moves the cursor to the beginning.
func (c *cursor) rewind() { c.back(place{}) }

// notified moves the cursor back to where a transaction began, as its notification says. Another
// text, as of a notification by hand, means the beginning.
func (c *cursor) notified(payload string) {
	us, err := strconv.ParseInt(payload, 10, 64)
	if err != nil {
		c.rewind()
		return
	}
	c.back(place{time.UnixMicro(us), math.MinInt64})
}

func (c *cursor) back(to place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.looks {
		if l.back == nil || to.before(*l.back) {
			l.back = &to
		}
	}
	if to.before(c.after) {
		c.after = to
	}
}
