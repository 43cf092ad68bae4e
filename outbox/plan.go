package outbox

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
)

// slack is how much later than due a message may be for being published at once where there are tiers.
// It covers the time from Enqueue to the relay.
const slack = time.Second

// plan says what to do with a message that is due after left: publish it with a delay, or, where wait is
// positive, look at it again after wait.
//
// A delay beyond the longest waits in the table until it fits. Where there are tiers, a message that has
// already waited waits on until what is left is a tier: the next longer one could be hours longer.
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

// pause is how long to leave alone what failed so many times in a row: longer each time, up to the most,
// and not the same for all.
func pause(failures int, most time.Duration) time.Duration {
	d := most
	if shift := failures - 1; shift < 20 && time.Second<<shift < most {
		d = time.Second << shift
	}
	return d - rand.N(d/4+1)
}

// brokerAway says that an error is not about the message: no message can be published now.
func brokerAway(err error) bool {
	return errors.Is(err, delayer.ErrNotSent) || errors.Is(err, delayer.ErrUnavailable) || errors.Is(err, delayer.ErrClosed)
}
