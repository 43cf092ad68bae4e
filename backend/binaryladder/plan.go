package binaryladder

import (
	"fmt"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// A ladder has levels 0 (the finest) to levels−1. A delay, counted in ticks, is written in base
// 2^bits; the digit at a level is the value of the queue that the message waits in there, a digit
// of 0 skips the level.
type ladder struct {
	levels int
	bits   int // per level
	tick   time.Duration
}

// A hop is one wait: in the queue for a value of a level's digit.
type hop struct {
	level int
	value int // 1 to 2^bits − 1
}

// newLadder checks the geometry. The broker accepts every ladder that passes.
func newLadder(levels, bits int, tick time.Duration) (ladder, error) {
	l := ladder{levels: levels, bits: bits, tick: tick}
	switch {
	case levels < 1 || levels > maxLevels:
		return l, badConfig("levels", "%d is not between 1 and %d", levels, maxLevels)
	case bits < 1 || bits > maxBits:
		return l, badConfig("bits_per_level", "%d is not between 1 and %d", bits, maxBits)
	case tick < time.Millisecond || tick%time.Millisecond != 0:
		return l, badConfig("tick", "%v is not a whole number of milliseconds, at least 1ms: the broker counts in milliseconds", tick)
	}
	// In ticks, so that nothing can overflow: levels × bits may be 168.
	limit := int64((topology.MaxTTL - time.Millisecond) / tick)
	top := l.base() - 1
	shift := bits * (levels - 1)
	if shift > 62 || int64(top) > limit>>shift {
		return l, badConfig("levels", "with %d levels of %d bits and a tick of %v the longest queue would wait longer than ten years, the longest x-message-ttl that RabbitMQ takes: use at most %d levels",
			levels, bits, tick, l.mostLevels(limit))
	}
	return l, nil
}

const (
	maxLevels = 28 // of one second: 8.5 years
	maxBits   = 6
)

// mostLevels returns how many levels fit into the longest TTL.
func (l ladder) mostLevels(limit int64) int {
	n := 0
	for n < maxLevels && l.bits*n <= 62 && int64(l.base()-1) <= limit>>(l.bits*n) {
		n++
	}
	return n
}

// base is the number of values of a digit.
func (l ladder) base() int { return 1 << l.bits }

// max is the longest delay: all digits at their highest.
func (l ladder) max() time.Duration {
	return (1<<(l.bits*l.levels) - 1) * l.tick
}

// ttl is how long a hop lasts: value × 2^(bits × level) ticks.
func (l ladder) ttl(h hop) time.Duration {
	return time.Duration(h.value) << (l.bits * h.level) * l.tick
}

// ticks rounds a delay up: a message is late by less than a tick, never early.
func (l ladder) ticks(delay time.Duration) int64 {
	t := int64(delay / l.tick)
	if delay%l.tick != 0 {
		t++
	}
	return t
}

// hops returns where a message waits, highest level first. The hops' TTLs add up to the delay
// rounded up to a tick; no level occurs twice. delay must be between 0 and max.
func (l ladder) hops(delay time.Duration) []hop {
	ticks := l.ticks(delay)
	var hops []hop
	for level := l.levels - 1; level >= 0; level-- {
		if value := int(ticks>>(l.bits*level)) & (l.base() - 1); value != 0 {
			if hops == nil {
				hops = make([]hop, 0, level+1)
			}
			hops = append(hops, hop{level, value})
		}
	}
	return hops
}

// topicKey is a word for each level's bit, highest first, and then the destination. The broker
// matches all keys of a message at every exchange: the user's keys in the ladder, and ours at the
// user's exchange. So the words are not plain digits. "~1" and "~0" are in no binding of a user's,
// and no key of a user's has the reserved first word.
func (l ladder) topicKey(delay time.Duration, destination string) string {
	ticks := l.ticks(delay)
	var b strings.Builder
	b.Grow(len(message.Reserved) + 3*l.levels + 1 + len(destination))
	b.WriteString(message.Reserved)
	for level := l.levels - 1; level >= 0; level-- {
		b.WriteString(".~")
		b.WriteByte('0' + byte(ticks>>level&1))
	}
	b.WriteByte('.')
	b.WriteString(destination)
	return b.String()
}

// topicPattern matches the topic keys whose bit at a level is as given.
func (l ladder) topicPattern(level, bit int) string {
	return message.Reserved + strings.Repeat(".*", l.levels-1-level) + fmt.Sprintf(".~%d.#", bit)
}
