package keeper

import (
	"math/rand/v2"
	"time"
)

const (
	firstPause   = time.Second     // after the first failure, less up to half of it at random
	longestPause = time.Minute     // likewise, after many
	callersPause = 5 * time.Second // the longest that callers share a failure
	logEvery     = time.Minute     // the least time between two lines about the same failure
)

// A backoff decides when to do again what has failed, and what to log about it. The pause doubles
// from one second to a minute, and starts anew with another answer. It is pure: its user has the
// clock. The zero value has not failed.
type backoff struct {
	answer string // of the last attempt; "" if it succeeded
	pause  time.Duration
	at     time.Time // of the last failure
	until  time.Time // when to try again
	logged time.Time // when the failure was last logged
}

// failed notes a failure, and reports whether to log it.
func (b *backoff) failed(now time.Time, answer string) (log bool) {
	if answer == b.answer {
		b.pause = min(2*b.pause, longestPause)
	} else {
		b.answer, b.pause, b.logged = answer, firstPause, time.Time{}
	}
	b.at, b.until = now, now.Add(b.pause/2+rand.N(b.pause/2))
	if log = now.Sub(b.logged) >= logEvery; log {
		b.logged = now
	}
	return log
}

// succeeded notes a success, and reports whether the attempt before has failed.
func (b *backoff) succeeded() (again bool) {
	again = b.answer != ""
	*b = backoff{}
	return again
}

// changed notes that the next answer may be another one: the connection is back. The next attempt
// is made a second after the last one at most.
func (b *backoff) changed() {
	if next := b.at.Add(firstPause); next.Before(b.until) {
		b.until, b.pause = next, firstPause/2
	}
}

// wait returns how long not to try again.
func (b *backoff) wait(now time.Time) time.Duration { return max(0, b.until.Sub(now)) }
