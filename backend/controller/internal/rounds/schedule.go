package rounds

import (
	"fmt"
	"math"
	"time"

	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

const (
	maxLevels = 28 // of one second: the longest queue waits 4.25 years
	maxTick   = time.Minute

	// overhead is the time that a hop may take beyond its TTL. A queue is chosen only if the
	// remaining delay is longer by at least that, so that a message which overshoots is still on
	// time.
	overhead = 10 * time.Millisecond
	// shortest is the least remaining delay for which a queue is used, however small the tick.
	shortest = 20 * time.Millisecond
)

// A schedule has levels 0 (the shortest) to levels−1; the queue of level k holds a message for 2^k
// ticks.
type schedule struct {
	levels int
	tick   time.Duration
	spare  time.Duration // the least delay that must remain after a queue
	memory time.Duration // shorter delays wait in the controller's memory
}

// newSchedule checks the geometry. The broker accepts every schedule that passes. Errors are
// ErrConfig.
func newSchedule(levels int, tick time.Duration) (schedule, error) {
	s := schedule{levels: levels, tick: tick, spare: overhead, memory: max(tick, shortest) + overhead}
	switch {
	case levels < 1 || levels > maxLevels:
		return s, badConfig("levels", "%d is not between 1 and %d", levels, maxLevels)
	case tick < time.Millisecond || tick%time.Millisecond != 0:
		return s, badConfig("tick", "%v is not a whole number of milliseconds, at least 1ms: the broker counts in milliseconds", tick)
	case tick > maxTick:
		return s, badConfig("tick", "%v is more than %v: messages wait up to a tick unacknowledged in the controller, and the broker closes the channel of a consumer that holds them for long", tick, maxTick)
	}
	const limit = objects.MaxTTL - time.Millisecond
	if tick > limit>>(levels-1) {
		most := 1
		for tick <= limit>>most {
			most++
		}
		return s, badConfig("levels", "with %d levels and a tick of %v the longest queue would wait longer than ten years, the longest x-message-ttl that RabbitMQ takes: use at most %d levels", levels, tick, most)
	}
	return s, nil
}

func badConfig(field, format string, args ...any) error {
	return engine.ConfigError("controller."+field, fmt.Errorf(format, args...), "")
}

func (s schedule) ttl(level int) time.Duration { return s.tick << level }

// Steps that are no level.
const (
	deliver  = -1 // it is due
	inMemory = -2 // it waits in memory until it is due
)

// next returns the next step of a message with this remaining delay: the level of the longest queue
// that ends before it is due, or deliver, or inMemory. Longer delays pass the longest queue several
// times. That takes the fewest hops that these queues allow.
func (s schedule) next(remaining time.Duration) int {
	switch {
	case remaining <= 0:
		return deliver
	case remaining < s.memory:
		return inMemory
	}
	for level := s.levels - 1; level > 0; level-- {
		if s.ttl(level) <= remaining-s.spare {
			return level
		}
	}
	return 0
}

// level returns the shortest queue that waits so long, or else the longest queue.
func (s schedule) level(wait time.Duration) int {
	for level := range s.levels {
		if s.ttl(level) >= wait {
			return level
		}
	}
	return s.levels - 1
}

// whole rounds a delay up to whole milliseconds.
func whole(delay time.Duration) time.Duration {
	if rest := delay % time.Millisecond; rest != 0 && delay <= math.MaxInt64-time.Millisecond {
		return delay - rest + time.Millisecond
	}
	return delay
}
