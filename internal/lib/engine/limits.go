package engine

import (
	"fmt"
	"math"
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
		return 0, fmt.Errorf("%v is longer than %v, the longest delay of this configuration: use a shorter delay, or a configuration that reaches further",
			delay, l.Max)
	case delay == 0 || l.Tiers == nil:
		return delay, nil
	}
	for _, tier := range l.Tiers {
		if delay == tier || delay < tier && !l.ExactTiers {
			return tier, nil
		}
	}
	names := make([]string, len(l.Tiers))
	for i, tier := range l.Tiers {
		names[i] = tier.String()
	}
	return 0, fmt.Errorf("%v is none of the tiers %s, and rounding is exact: use one of them, or rounding: up", delay, strings.Join(names, ", "))
}

// maxPriority is the highest priority with which waiting messages do not block one another.
//
// Quorum queues of RabbitMQ 4.0 to 4.2 keep messages with a priority above 4 in a separate list, and
// look only at the head of one list for expired messages (rabbit_fifo_q:get). 3.x has one list, 4.3
// looks at all of them, and classic queues without x-max-priority ignore priorities.
func maxPriority(version string, kind delayer.QueueType) uint8 {
	const normalLane = 4
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	if kind == delayer.Quorum && (err != nil || major == 4 && minor < 3) {
		return normalLane
	}
	return math.MaxUint8
}
