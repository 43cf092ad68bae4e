package outbox

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
)

// slack is how much longer than what is left of a delay a tier may be. It covers the time from
// Enqueue to the relay.
const slack = time.Second

// plan returns the delay to publish a message with that is due after left, or a positive wait: look
// at it again then.
//
// A delay beyond the longest waits in the table until it fits. With tiers, a message that has
// already waited waits until what is left is a tier: the next longer tier could be hours longer.
func plan(left time.Duration, l delayer.Limits) (delay, wait time.Duration) {
	switch {
	case left <= 0:
		return 0, 0
	case len(l.Tiers) == 0:
		return min(left, l.Max), max(left-l.Max, 0)
	}
	at, _ := slices.BinarySearch(l.Tiers, left)
	if at < len(l.Tiers) && l.Tiers[at]-left <= slack {
		return l.Tiers[at], 0
	}
	if at == 0 {
		return 0, left
	}
	return 0, left - l.Tiers[at-1]
}

// pause is the time before the next try after so many failures in a row. It doubles each time, up
// to most, and is shortened by up to a quarter at random. A count below one, as in a row that was
// written by hand, is taken for one.
func pause(failures int, most time.Duration) time.Duration {
	d := most
	if shift := max(failures-1, 0); shift < 20 && time.Second<<shift < most {
		d = time.Second << shift
	}
	return d - rand.N(d/4+1)
}

// brokerAway reports whether an error concerns the broker, not this message.
func brokerAway(err error) bool {
	for _, kind := range []error{delayer.ErrNotSent, delayer.ErrUnavailable, delayer.ErrNotFound, delayer.ErrClosed} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
