package message

import (
	"fmt"
	"time"

	"github.com/delayer-go/delayer"
)

// RoundUp returns the shortest delay of a backend that is at least wait.
func RoundUp(wait time.Duration, l delayer.Limits) (time.Duration, error) {
	if wait == 0 {
		return 0, nil
	}
	for _, tier := range l.Tiers {
		if wait <= tier {
			return tier, nil
		}
	}
	if rest := wait % max(l.Resolution, 1); rest > 0 && wait <= l.Max {
		wait += l.Resolution - rest
	}
	if l.Tiers != nil || wait > l.Max {
		return 0, fmt.Errorf("%v is longer than %v, the longest delay of the backend", wait, l.Max)
	}
	return wait, nil
}
