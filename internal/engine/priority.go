package engine

import (
	"math"
	"strconv"
	"strings"

	"github.com/delayer-go/delayer"
)

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
	if kind == delayer.Quorum && err1 == nil && err2 == nil && x == 4 && y < 3 {
		return normalLane
	}
	return math.MaxUint8
}
