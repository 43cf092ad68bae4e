package leader

import (
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// What follows is decided where messages are published, by any process.

// ownFor is the longest delay that a process counts by its own clock too: for so long it differs from
// the broker's by no more than 200 ms, if one of them gains 200 ppm.
const ownFor = 15 * time.Minute

// Enter gives a message that has so long to wait its times. The process that writes the message counts
// by its own clock too, which is exact, in case that it leads.
func Enter(now Now, delay time.Duration) (due brokertime.Due, left, own time.Duration) {
	if !now.Known {
		return 0, delay, now.Mono + delay
	}
	if delay <= ownFor {
		own = now.Mono + delay
	}
	return now.reckon(delay), 0, own
}

// InTime reports whether a message that is due then can still be changed. It is asked before a
// change is written, and again after its confirm.
func InTime(now Now, due brokertime.Due) bool {
	return now.Known && !now.Clock.Latest.Add(AcceptedBefore).After(due.Time())
}
