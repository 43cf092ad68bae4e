package brokertime

import (
	"sync"
	"time"
)

// An Interval is what is known of a clock at the broker. What a [Clock] promises holds for others who
// ask, too. It is safe for concurrent use.
type Interval struct {
	epoch   time.Time
	stale   time.Duration           // after the last answer the clock is not known any more
	instant func(time.Time) instant // of a time with a monotonic reading

	mu       sync.Mutex
	estimate estimate
	steady   Steady
}

// intervalStale is for who asks through a queue that a destination holds up, perhaps for minutes.
const intervalStale = 5 * time.Minute

// NewInterval returns an Interval that knows nothing yet.
func NewInterval() *Interval { return newInterval(intervalStale) }

func newInterval(stale time.Duration) *Interval {
	epoch := time.Now()
	return &Interval{epoch: epoch, stale: stale, instant: func(t time.Time) instant { return instant{t.Sub(epoch), t.Round(0)} }}
}

// Learn says that the clock showed from or more when an answer was received, and less than to when
// its question was sent. stepped is not 0 if that contradicts what was known: see [Clock]. Then, and
// if nothing was known, the answer alone counts. sent and received must have a monotonic reading.
func (i *Interval) Learn(sent, received, from, to time.Time) (stepped time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.estimate.learn(i.instant(sent), i.instant(received), from, to)
}

// Read returns what the clock shows now. ok is false, and the reading of no use, if that is not known
// to a second or so.
func (i *Interval) Read() (r Reading, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.instant(time.Now())
	b, ok := i.estimate.within(now, i.stale)
	return Reading{Earliest: shown(now.mono, b.lo), Latest: shown(now.mono, b.hi)}, ok
}

// RoundTrip is the shortest that was seen.
func (i *Interval) RoundTrip() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.estimate.rtt
}

// At returns what the clock shows at a later time of this process, at the latest, for something
// that began at a time: see [Steady]. Both times must have a monotonic reading.
func (i *Interval) At(later, began time.Time) (at time.Time, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	b, ok := i.estimate.within(i.instant(time.Now()), i.stale)
	return shown(later.Sub(i.epoch), i.steady.Ahead(b.hi, began.Sub(i.epoch))), ok
}

func shown(mono, ahead time.Duration) time.Time { return time.Unix(0, int64(mono+ahead)) }

// A Steady keeps what is known of a clock from going back from one message to the next, so that
// those with the same delay are due in their order. What is known gets more exact, and what the
// clock shows at the latest earlier.
type Steady struct {
	mu        sync.Mutex
	ahead, at time.Duration
}

// Ahead returns by how much the broker's clock is ahead of that of this process at the most, for a
// message that was published at a time of this process. It is what is known now, or more by up to a
// second: at first the clock is known to a second.
func (s *Steady) Ahead(known, at time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.ahead - max(0, at-s.at)/2 // so it goes back, at half the pace of time
	if by := most - known; by > 0 && by <= time.Second {
		known = most
	}
	s.ahead, s.at = known, max(s.at, at)
	return known
}
