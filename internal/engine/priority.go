package engine

import (
	"math"
	"strconv"
	"strings"

	"github.com/delayer-go/delayer"
)

// maxPriority is the highest message priority with which a message that waits holds up no other.
//
// Quorum queues of RabbitMQ 4.0 to 4.2 keep messages of a priority above 4 in a lane of their own and
// look only at the head of one lane for expiry (rabbit_fifo_q:get): an expired message of the other lane stays until that
// head has expired too. 3.x keeps one lane, 4.3 looks at all of them, and classic queues without x-max-priority
// know no priorities.
func maxPriority(version string, kind delayer.QueueType) uint8 {
	const normalLane = 4
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	if kind == delayer.Quorum && err1 == nil && err2 == nil && x == 4 && y < 3 {
		return normalLane
	}
	return math.MaxUint8
}
