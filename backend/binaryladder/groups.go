package binaryladder

import "slices"

// A group is a run of neighbouring steps. They are multiples of its unit, and so are all longer
// steps. Its table holds the smallest set of its steps for each sum.
type group struct {
	unit  int64   // in ticks
	carry int64   // most units that the shorter groups add up to
	ratio int64   // the next group's unit in units of this one; 0 if this is the last
	cells int64   // one more than the next group's carry
	best  []int32 // by sum, in units: its smallest set; or none
	sizes []uint8 // by sum: how many steps that has; or many
	nodes []node
}

// A node is a set of steps: its longest, and the node of the others. Nodes never change, so the
// sets of a table share them. Node 0 is the empty set.
type node struct {
	rest int32
	step int16
	hops int16
}

const (
	none = -1  // no set
	many = 255 // no set is so large
	// never is more than all groups can be without a set.
	never = many << 6

	// mostSums bounds a group's table, and with it the memory of a ladder: some 15 MiB.
	mostSums = 1 << 19
	// mostCarry bounds what a plan tries at each border of two groups. It is a mask, too.
	mostCarry = 31
	// mostGroups bounds the work of a plan. The unit at least doubles from group to group, and the
	// longest delay has 2^38.2 ticks.
	mostGroups = 40
)

// newGroup fills the table of steps, in ticks. first is the number of the first of them.
func newGroup(unit, carry int64, first int, steps []int64) group {
	sums := sumsBelow(steps)[len(steps)]/unit + 1
	g := group{unit: unit, carry: carry, cells: 1, best: make([]int32, sums), sizes: make([]uint8, sums), nodes: make([]node, 1)}
	for sum := range g.best[1:] {
		g.best[1+sum], g.sizes[1+sum] = none, many
	}
	reached := int64(0)
	for i, step := range steps {
		amount := step / unit
		reached += amount
		for sum := reached; sum >= amount; sum-- { // downwards: each step is in a set once
			if rest := g.best[sum-amount]; rest != none {
				g.offer(sum, node{rest: rest, step: int16(first + i), hops: g.nodes[rest].hops + 1}) //nolint:gosec // at most mostSteps
			}
		}
	}
	return g
}

// offer keeps a set for a sum if it is smaller than the known one.
func (g *group) offer(sum int64, n node) {
	if n.hops < int16(g.sizes[sum]) {
		g.best[sum], g.sizes[sum] = int32(len(g.nodes)), uint8(n.hops) //nolint:gosec // at most mostSums times 256, and 255
		g.nodes = append(g.nodes, n)
	}
}

// appendSet appends the steps of the smallest set for a sum, longest first.
func (g *group) appendSet(dst []int16, sum int64) []int16 {
	for n := g.nodes[g.best[sum]]; n.hops > 0; n = g.nodes[n.rest] {
		dst = append(dst, n.step)
	}
	return dst
}

// newGroups divides steps, ascending and in ticks, into groups so that plans and tables together
// cost least. If a table would be too large it returns no groups, and the number of the longest
// step that is no multiple of a longer unit.
func newGroups(steps []int64) (groups []group, irregular int) {
	units, below := unitsOf(steps), sumsBelow(steps)
	cuts := make([]cut, len(steps)+1)
	last := 0 // the longest steps that can be divided
	for end := 1; end <= len(steps); end++ {
		cuts[end] = cheapest(cuts, units, below, end)
		if cuts[end].possible {
			last = end
		}
	}
	if last < len(steps) {
		irregular := last
		for irregular+1 < len(steps) && units[irregular+1] == units[last] {
			irregular++
		}
		return nil, irregular
	}
	for end := len(steps); end > 0; end = cuts[end].from {
		from := cuts[end].from
		groups = append(groups, newGroup(units[from], below[from]/units[from], from, steps[from:end]))
	}
	slices.Reverse(groups)
	for i := range groups[1:] {
		groups[i].ratio, groups[i].cells = groups[1+i].unit/groups[i].unit, groups[1+i].carry+1
	}
	return groups, -1
}

// A cut is the end of a group.
type cut struct {
	possible bool
	from     int   // where the group begins
	cost     int64 // of this group and all before it
}

// cheapest returns where the group before end had best begin: where the unit grows.
func cheapest(cuts []cut, units, below []int64, end int) (best cut) {
	out := int64(0)
	if end < len(units) {
		out = below[end] / units[end]
	}
	for from := range end {
		border := from == 0 || cuts[from].possible && units[from] > units[from-1]
		carry, sums := below[from]/units[from], (below[end]-below[from])/units[from]
		if !border || carry > mostCarry || sums > mostSums {
			continue
		}
		const sumsLikeLookup = 64 // so much memory is as bad as one look-up more in every plan
		cost := cuts[from].cost + (carry+1)*(out+1) + sums/sumsLikeLookup
		if !best.possible || cost < best.cost {
			best = cut{true, from, cost}
		}
	}
	return best
}

// unitsOf returns, for each step, the largest unit of which it and all longer steps are multiples.
func unitsOf(steps []int64) []int64 {
	units := slices.Clone(steps)
	for i := len(units) - 2; i >= 0; i-- {
		a, b := units[i], units[i+1]
		for b != 0 {
			a, b = b, a%b
		}
		units[i] = a
	}
	return units
}

// sumsBelow returns the sum of the steps before each, and last that of all.
func sumsBelow(steps []int64) []int64 {
	sums := make([]int64, len(steps)+1)
	for i, s := range steps {
		sums[i+1] = sums[i] + s
	}
	return sums
}
