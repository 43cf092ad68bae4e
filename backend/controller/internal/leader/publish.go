package leader

import (
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// What follows is decided where messages are published, by any process.

// Precise is how well the broker's time must be known to count by it alone.
const Precise = 20 * time.Millisecond

// Enter gives a message that has so long to wait its times. While the broker's time is not well
// known, the process that writes the message counts by its own clock too, in case that it leads.
func Enter(now Now, delay time.Duration) (due brokertime.Due, left, own time.Duration) {
	if !now.Known {
		return 0, delay, now.Mono + delay
	}
	if now.Clock.Latest.Sub(now.Clock.Earliest) > Precise {
		own = now.Mono + delay
	}
	return now.reckon(delay), 0, own
}

// InTime reports whether a message that is due then can still be changed. It is asked before a
// change is written, and again after its confirm. Who decides about the message may not have
// noticed yet that the broker's clock was set back: From counts that.
func InTime(now Now, due brokertime.Due) bool {
	return now.Known && !now.Clock.From.Add(AcceptedBefore).After(due.Time())
}
