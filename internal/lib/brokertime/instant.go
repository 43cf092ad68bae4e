package brokertime

import (
	"context"
	"time"
)

// An Instant is a moment by two clocks. The monotonic clock stops while the machine is suspended,
// and the wall clock can be set. The time that has passed lies between the two.
type Instant struct {
	Mono time.Duration // since an epoch of the caller's
	Wall time.Time     // without a monotonic reading
}

// AtMost returns the longest that can have passed since an earlier Instant.
func (i Instant) AtMost(since Instant) time.Duration {
	return max(i.Mono-since.Mono, i.Wall.Sub(since.Wall))
}

// AtLeast returns the shortest that can have passed since an earlier Instant.
func (i Instant) AtLeast(since Instant) time.Duration {
	return min(i.Mono-since.Mono, i.Wall.Sub(since.Wall))
}

// A Wall is what a machine's wall clock shows at a moment that time.Now has told, without a monotonic
// reading.
type Wall func(now time.Time) time.Time

func thisWall(now time.Time) time.Time { return now.Round(0) }

type wallKey struct{}

// WithWall returns a context for tests: what is opened with it takes this for the wall clock of its
// machine. A real one can be set for all processes only.
func WithWall(ctx context.Context, w Wall) context.Context {
	return context.WithValue(ctx, wallKey{}, w)
}

// WallOf returns the wall clock of what is opened with a context.
func WallOf(ctx context.Context) Wall {
	if w, is := ctx.Value(wallKey{}).(Wall); is {
		return w
	}
	return thisWall
}
