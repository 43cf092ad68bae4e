package binaryladder

import (
	"fmt"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// A ladder has a waiting queue for each step. A message waits in the queues of a plan: the smallest
// set of different steps that adds up to its delay. No queue occurs twice in a plan, because the
// broker drops what comes back to a queue.
type ladder struct {
	tick  time.Duration
	label string          // what the steps are called in the configuration
	steps []time.Duration // ascending, multiples of the tick
	// longest is the longest delay: the sum of the steps, or ten years.
	longest time.Duration
	// hops is a bound of the steps in a plan.
	hops   int
	groups []group
}

// doubles reports whether the steps are those of the bits of a delay in ticks.
func (l *ladder) doubles() bool {
	for i, step := range l.steps {
		if step != l.tick<<i {
			return false
		}
	}
	return true
}

// outside stands for no step: where messages come from and go to.
const outside = -1

// newLadder checks steps and prepares the plans of a ladder. The broker accepts every ladder that
// passes.
func newLadder(tick time.Duration, label string, steps []time.Duration) (*ladder, error) {
	if len(steps) == 0 {
		return nil, badConfig("tick", "no step of the %s is a multiple of %v: take a tick that divides a minute, or steps: binary", label, tick)
	}
	l := &ladder{tick: tick, label: label, steps: steps}
	ticks := make([]int64, len(steps))
	sum := int64(0)
	for i, s := range steps {
		ticks[i] = int64(s / tick)
		if ticks[i] > sum+1 {
			gap := objects.DurationName(time.Duration(sum+1) * tick)
			return nil, badConfig("steps", "with a tick of %v, %s is no sum of steps of the %s: add a step of %[2]s", tick, gap, label)
		}
		sum += ticks[i]
	}
	groups, irregular := newGroups(ticks)
	if groups == nil {
		return nil, badConfig("steps", "plans with %s would need a table of more than %d sums: "+
			"make it a multiple of a longer unit, such as a minute", objects.DurationName(steps[irregular]), mostSums)
	}
	l.groups = groups
	l.longest = time.Duration(min(sum, int64(objects.MaxTTL/tick))) * tick
	l.hops = l.bound()
	return l, nil
}

// bound returns a number that no plan exceeds: what plan would compute if each cell had its worst
// delay.
func (l *ladder) bound() int {
	var below, worst [mostCarry + 1]int32
	for i := range l.groups {
		g := &l.groups[i]
		parts := g.ratio
		if parts == 0 {
			parts = l.ticks(l.longest)/g.unit + 1
		}
		for more := range g.cells {
			worst[more] = 0
			for part := int64(0); part < parts && worst[more] < many; part++ {
				hops, _ := g.cheapest(part+more*g.ratio, &below)
				worst[more] = max(worst[more], hops)
			}
		}
		below = worst
	}
	return min(int(below[0]), len(l.steps))
}

// ticks rounds a delay up: a message is late by less than a tick, never early.
func (l *ladder) ticks(delay time.Duration) int64 {
	t := int64(delay / l.tick)
	if delay%l.tick != 0 {
		t++
	}
	return t
}

// plan appends the numbers of the steps that a delay takes, longest first. They add up to the delay
// rounded up to a tick, and no fewer do. delay must be between 0 and the longest.
//
// From the shortest group to the longest it computes how few steps make the part of the delay below
// the next group's unit, and that part with one, two, … of these units, which the longer groups
// then need not make.
func (l *ladder) plan(dst []int16, delay time.Duration) []int16 {
	var amounts [mostGroups]int64 // of each group, in its units, without what the next leaves to it
	var cells [mostGroups]int64   // one more than the most units that the next group can leave
	var less [mostGroups][mostCarry + 1]int8
	var hops [2][mostCarry + 1]int32
	rest, leaves := l.ticks(delay), int64(0)
	for i := len(l.groups) - 1; i >= 0; i-- {
		g := &l.groups[i]
		amounts[i], cells[i] = rest/g.unit, min(g.cells, leaves+1)
		rest -= amounts[i] * g.unit
		leaves = amounts[i] + (cells[i]-1)*g.ratio
	}
	for i := range l.groups {
		g := &l.groups[i]
		for more := range cells[i] {
			hops[1-i%2][more], less[i][more] = g.cheapest(amounts[i]+more*g.ratio, &hops[i%2])
		}
	}
	more := int64(0) // units of the next group
	for i := len(l.groups) - 1; i >= 0; i-- {
		given := int64(less[i][more])
		dst = l.groups[i].appendSet(dst, amounts[i]+more*l.groups[i].ratio-given)
		more = given
	}
	return dst
}

// cheapest returns how few steps of a group and the shorter ones make an amount, and how many units
// of it the shorter ones then make. below is how few of theirs make none, one, two, … units.
func (g *group) cheapest(amount int64, below *[mostCarry + 1]int32) (hops int32, less int8) {
	const bits = 5 // of less, beside the hops: one comparison, without a branch
	sizes, best := g.sizes, int32(never<<bits)
	last := min(g.carry, amount)
	for i := max(0, amount-int64(len(sizes))+1); i <= last; i++ {
		best = min(best, (below[i&mostCarry]+int32(sizes[amount-i]))<<bits|int32(i)) //nolint:gosec // at most mostCarry
	}
	return best >> bits, int8(best & mostCarry) //nolint:gosec // at most mostCarry
}

// topicKey is a word for each step, longest first, and then the destination. The steps are binary,
// so a word is a bit of the delay. The broker matches all keys of a message at every exchange: the
// user's keys in the ladder, and ours at the user's exchange. So the words are not plain digits.
// "~1" and "~0" are in no binding of a user's, and no key of a user's has the reserved first word.
func (l *ladder) topicKey(delay time.Duration, destination string) string {
	ticks := l.ticks(delay)
	var b strings.Builder
	b.Grow(len(message.Reserved) + 3*len(l.steps) + 1 + len(destination))
	b.WriteString(message.Reserved)
	for step := len(l.steps) - 1; step >= 0; step-- {
		b.WriteString(".~")
		b.WriteByte('0' + byte(ticks>>step&1))
	}
	b.WriteByte('.')
	b.WriteString(destination)
	return b.String()
}

// topicPattern matches the topic keys whose bit for a step is as given.
func (l *ladder) topicPattern(step, bit int) string {
	return message.Reserved + strings.Repeat(".*", len(l.steps)-1-step) + fmt.Sprintf(".~%d.#", bit)
}
