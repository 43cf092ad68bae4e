package evacuate

import (
	"context"
	"fmt"
	"time"
)

// scanEvery is the least time between two counts: each reads the plugin's whole table.
const scanEvery = 30 * time.Second

// Left is what still waits in the plugin.
type Left struct {
	Rows   int       `json:"pending"`
	Latest time.Time `json:"latest_due,omitzero"` // when the last is due; zero if unknown
}

// A Drain waits until nothing waits in the plugin.
type Drain struct {
	Count    func(context.Context) (Left, error)
	Progress func(DrainState) // after each count
}

// A DrainState is how far a drain is.
type DrainState struct {
	Left
	First   Left          // the first count
	Waited  time.Duration // since the first count
	Ends    time.Time     // the estimated end; zero if unknown
	Arrives bool          // rows came while the drain waited
}

// Run counts again and again until nothing is left. A count that fails ends it.
func (d Drain) Run(ctx context.Context) error {
	began := time.Now()
	var state DrainState
	for first := true; ; first = false {
		left, err := d.Count(ctx)
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		if first {
			state.First = left
		}
		state = state.next(left, time.Now(), time.Since(began))
		d.Progress(state)
		if left.Rows == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause(left, time.Now())):
		}
	}
}

// next is the state after a count. Where the plugin's table was read, the last due time is the end.
// Otherwise the rate since the first count says when it may be.
func (s DrainState) next(left Left, now time.Time, waited time.Duration) DrainState {
	s.Arrives = s.Arrives || left.Rows > s.First.Rows || !s.Latest.IsZero() && left.Latest.After(s.Latest)
	s.Left, s.Waited, s.Ends = left, waited, left.Latest
	if gone := s.First.Rows - left.Rows; left.Latest.IsZero() && gone > 0 {
		s.Ends = now.Add(time.Duration(float64(waited) / float64(gone) * float64(left.Rows)))
	}
	return s
}

// pause is how long to wait before the next count. If the last row is due sooner than that, it is
// counted just after it.
func pause(left Left, now time.Time) time.Duration {
	const after = time.Second
	if until := left.Latest.Sub(now) + after; !left.Latest.IsZero() && until > 0 {
		return min(until, scanEvery)
	}
	if left.Latest.IsZero() {
		return scanEvery
	}
	return scanEvery / 6 // late: the plugin is busy
}
