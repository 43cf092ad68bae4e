package engine

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
)

// inDays says in years or days how long a delay is that has many hours, in parentheses.
func inDays(d time.Duration) string {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	switch {
	case d >= 2*year:
		return fmt.Sprintf(" (%.4g years)", d.Hours()/year.Hours())
	case d >= 2*day:
		return fmt.Sprintf(" (%.4g days)", d.Hours()/day.Hours())
	}
	return ""
}

// fit returns how long a message with this delay waits: the delay, or the next tier. It refuses
// delays outside the limits.
func fit(delay time.Duration, l delayer.Limits) (time.Duration, error) {
	switch {
	case delay < 0:
		return 0, fmt.Errorf("%v is negative: the shortest delay is 0", delay)
	case delay > l.Max:
		return 0, fmt.Errorf("%v is longer than %v%s, the longest delay of this configuration: use a shorter delay, or a configuration that reaches further",
			delay, l.Max, inDays(l.Max))
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
// Quorum queues of RabbitMQ 4.0 to 4.2 keep messages with a priority above 4 in a separate list.
// They look only at the head of one list for expired messages (rabbit_fifo_q:get), so an expired
// message of the other list stays until that head has expired too. 3.x has one list, 4.3 looks at
// all of them, and classic queues without x-max-priority ignore priorities.
func maxPriority(version string, kind delayer.QueueType) uint8 {
	const normalLane = 4
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	unknown := err1 != nil || err2 != nil
	if kind == delayer.Quorum && (unknown || x == 4 && y < 3) {
		return normalLane
	}
	return math.MaxUint8
}
