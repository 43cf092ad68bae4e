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
		hint := "use a shorter delay"
		if l.Max < farthest {
			hint += ", or backend controller, which reaches " + inYears(farthest)
		}
		return 0, fmt.Errorf("%s is longer than %s, the longest delay of this configuration: %s", inYears(delay), inYears(l.Max), hint)
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

// farthest is the longest delay of any backend, controller.
const year, farthest = 365 * 24 * time.Hour, 200 * year

// inYears writes whole years as such.
func inYears(d time.Duration) string {
	if d > year && d%year == 0 {
		return fmt.Sprintf("%d years", d/year)
	}
	return d.String()
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
