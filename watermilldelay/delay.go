package watermilldelay

import (
	"fmt"
	"math"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
)

// delayOf returns how long a message is to wait from now.
//
// Package delay writes both a duration and a time. The duration is exact, but counts from when it
// was written. The time has no fraction of a second, and may be up to a second early. So delayOf
// takes the shorter of two waits that are not early: the duration from now, and until a second
// after the time. A message that was stored before it is published is thus not delayed a second
// time.
func delayOf(metadata message.Metadata, now time.Time) (time.Duration, error) {
	duration, at := metadata.Get(delay.DelayedForKey), metadata.Get(delay.DelayedUntilKey)
	if duration == "" && at == "" {
		return 0, nil
	}
	wait := time.Duration(math.MaxInt64)
	if duration != "" {
		var err error
		if wait, err = time.ParseDuration(duration); err != nil {
			return 0, fmt.Errorf("metadata %s is %.80q, want a duration such as 90s", delay.DelayedForKey, duration)
		}
	}
	if at != "" {
		due, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return 0, fmt.Errorf("metadata %s is %.80q, want a time such as 2030-01-31T12:00:00Z", delay.DelayedUntilKey, at)
		}
		if duration != "" && due.Nanosecond() == 0 {
			due = due.Add(time.Second)
		}
		wait = min(wait, due.Sub(now))
	}
	if wait == math.MaxInt64 { // Sub cuts off what is longer
		return 0, fmt.Errorf("metadata %s is %.80q, which is more than 292 years away", delay.DelayedUntilKey, at)
	}
	return max(wait, 0), nil
}
