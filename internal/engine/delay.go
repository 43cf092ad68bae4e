package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
)

// fit returns how long a message with this delay waits: the delay, or the next tier. It refuses
// delays outside the limits.
func fit(delay time.Duration, l delayer.Limits) (time.Duration, error) {
	switch {
	case delay < 0:
		return 0, fmt.Errorf("%v is negative: the shortest delay is 0", delay)
	case delay > l.Max:
		return 0, fmt.Errorf("%v is longer than %v, the longest delay of this configuration: use a shorter delay, or a configuration that reaches further", delay, l.Max)
	case delay == 0 || l.Tiers == nil:
		return delay, nil
	}
	for _, tier := range l.Tiers {
		if delay == tier || delay < tier && !l.ExactTiers {
			return tier, nil
		}
	}
	return 0, fmt.Errorf("%v is none of the tiers %s, and rounding is exact: use one of them, or rounding: up", delay, list(l.Tiers))
}

func list(tiers []time.Duration) string {
	names := make([]string, len(tiers))
	for i, t := range tiers {
		names[i] = t.String()
	}
	return strings.Join(names, ", ")
}
