package page

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/topology"
)

// A drawing is a topology as a picture: exchanges and queues in a column, in the order in which
// messages pass them, and arrows between them. Objects that differ in a number only are one box.
type drawing struct {
	Width, Height, BoxWidth int
	Boxes                   []box
	Arrows                  []arrow
}

// A box is an exchange, a queue, or several that are alike.
type box struct {
	Kind        string // exchange or queue
	Title, Full string // Full: with its prefix, not cut
	About       string
	Wrong       string // what differs from the plan
	Leads       []lead // each is a line in the box
	Y, Height   int
}

// A lead is where messages go from a box.
type lead struct {
	Kind    wayKind
	Key, To string
	Text    string // both, cut
	to      int    // the box; -1: not in the plan
	Y       int
}

// An arrow is drawn from boxes to one box.
type arrow struct {
	Kind wayKind
	Line string // a path
	Tip  string // a path; "" where another arrow goes on
}

// wayKind is why a message goes on.
type wayKind string

const (
	binds     wayKind = "binding"
	dies      wayKind = "dead-letter"
	otherwise wayKind = "otherwise" // an alternate exchange
)

// draw draws a plan. wrong says what differs, by the kind and the name of an object.
func draw(p topology.Plan, prefix string, wrong map[[2]string]string) drawing {
	g := newGraph(p, prefix)
	d := drawing{BoxWidth: boxWidth}
	place := make([]int, len(g.nodes)) // in the drawing
	order := g.order()
	for at, i := range order {
		place[i] = at
	}
	for _, i := range order {
		n := g.nodes[i]
		b := box{Kind: n.kind, Title: cut(n.title(g.prefix), titleLength), Full: n.full(), About: n.about(), Wrong: n.wrong(wrong)}
		for _, w := range n.ways {
			to := cut(g.nodes[w.to].title(g.prefix), titleLength)
			b.Leads = append(b.Leads, lead{Kind: w.kind, Key: w.label(), To: to, Text: cut("→ "+to+", "+w.label(), leadLength), to: place[w.to]})
		}
		if n.kind == "exchange" && !slices.ContainsFunc(n.ways, func(w *way) bool { return w.kind == binds }) {
			b.Leads = append([]lead{{Kind: binds, Key: "bound when it is first used", To: "destinations and others", Text: "→ bound when it is first used", to: -1}}, b.Leads...)
		}
		d.Boxes = append(d.Boxes, b)
	}
	d.lay()
	return d
}

// The measures of a drawing, in its own units.
const (
	boxWidth    = 262
	gap         = 24
	padding     = 10
	line        = 15
	tip         = 7 // the length of an arrow's
	laneWidth   = 11
	titleLength = 32
	leadLength  = 40
	wrongLength = 36 // in bold
)

// lay places boxes and arrows.
func (d *drawing) lay() {
	y := 1
	for i := range d.Boxes {
		b := &d.Boxes[i]
		b.Y = y
		text := y + padding + 2*line + 4 // title and what it is
		if b.Wrong != "" {
			text += line
		}
		for j := range b.Leads {
			text += line
			b.Leads[j].Y = text
		}
		b.Height = text + padding - y
		y += b.Height + gap
	}
	d.Height = y - gap + 1
	d.Width = boxWidth + 2
	lanes := d.lanes()
	entries := map[int]int{} // arrows that have entered a box on its right
	for i := range lanes {
		l := &lanes[i]
		l.enters = d.Boxes[l.to].Y + padding + 9*entries[l.to]
		entries[l.to]++
	}
	slices.SortStableFunc(lanes, func(a, b lane) int { return cmp.Compare(a.length(), b.length()) })
	var taken [][]lane
	for _, l := range lanes {
		n := slices.IndexFunc(taken, func(others []lane) bool {
			return !slices.ContainsFunc(others, func(o lane) bool { return l.top() <= o.bottom() && o.top() <= l.bottom() })
		})
		if n < 0 {
			taken, n = append(taken, nil), len(taken)
		}
		taken[n] = append(taken[n], l)
		x := boxWidth + 1 + tip + laneWidth*(n+1)
		d.Width = max(d.Width, x+4)
		d.Arrows = append(d.Arrows, l.arrows(x)...)
	}
}

// A lane is a vertical line beside the boxes, which leads to one of them.
type lane struct {
	kind   wayKind
	to     int
	leaves []int // where lines join it, from the top
	enters int
}

func (l lane) top() int    { return min(l.leaves[0], l.enters) }
func (l lane) bottom() int { return max(l.leaves[len(l.leaves)-1], l.enters) }
func (l lane) length() int { return l.bottom() - l.top() }

// lanes are the arrows that do not lead to the next box. What leads to that is drawn between the
// two.
func (d *drawing) lanes() (lanes []lane) {
	for i, b := range d.Boxes {
		straight := false
		for _, way := range b.Leads {
			if way.to == i+1 && !straight && way.Kind != otherwise {
				straight = true
				d.Arrows = append(d.Arrows, down(way.Kind, b.Y+b.Height, d.Boxes[i+1].Y))
				continue
			}
			if way.to < 0 {
				continue
			}
			at := slices.IndexFunc(lanes, func(l lane) bool { return l.kind == way.Kind && l.to == way.to })
			if at < 0 {
				at, lanes = len(lanes), append(lanes, lane{kind: way.Kind, to: way.to})
			}
			lanes[at].leaves = append(lanes[at].leaves, way.Y-4)
		}
	}
	return lanes
}

// down is an arrow from a box to the next one.
func down(kind wayKind, from, to int) arrow {
	const x = 24
	return arrow{kind, fmt.Sprintf("M%d %dV%d", x, from, to-tip), fmt.Sprintf("M%d %dl-4 -%dh8z", x, to, tip)}
}

// arrows lead along a lane. The farthest on each side draws it, and the others join: dashes of two
// lines would fill each other's gaps.
func (l lane) arrows(x int) (list []arrow) {
	const right, bend = boxWidth + 1, 4
	first, last := l.leaves[0], l.leaves[len(l.leaves)-1]
	for _, y := range l.leaves {
		if y < l.enters && y != first || y >= l.enters && y != last {
			list = append(list, arrow{Kind: l.kind, Line: fmt.Sprintf("M%d %dH%d", right, y, x)})
			continue
		}
		turn := bend // downwards
		if y > l.enters {
			turn = -bend
		}
		list = append(list, arrow{
			l.kind,
			fmt.Sprintf("M%d %dH%dq%d 0 %d %dV%dq0 %d -%d %dH%d", right, y, x-bend, bend, bend, turn, l.enters-turn, turn, bend, turn, right+tip),
			fmt.Sprintf("M%d %dl%d -4v8z", right, l.enters, tip),
		})
	}
	return list
}

// A graph is a plan in which objects that are alike are one node.
type graph struct {
	prefix string
	nodes  []*node
}

type node struct {
	kind, sort string // sort: the type of an exchange or queue
	names      []string
	ways       []*way
	entered    bool
}

// A way leads from a node to another.
type way struct {
	kind   wayKind
	to     int
	keys   []string
	after  []time.Duration // the TTLs of queues
	always int             // how many of its objects have no TTL
}

func newGraph(p topology.Plan, prefix string) graph {
	g := graph{prefix: prefix}
	known, at := map[string]int{}, map[[2]string]int{}
	add := func(kind, sort, name string) {
		alike := kind + " " + sort + " " + g.pattern(name)
		i, there := known[alike]
		if !there {
			i = len(g.nodes)
			known[alike], g.nodes = i, append(g.nodes, &node{kind: kind, sort: sort})
		}
		at[[2]string{kind, name}] = i
		g.nodes[i].names = append(g.nodes[i].names, name)
	}
	for _, x := range p.Exchanges {
		add("exchange", x.Kind, x.Name)
	}
	for _, q := range p.Queues {
		sort, _ := q.Args["x-queue-type"].(string)
		add("queue", cmp.Or(sort, "classic"), q.Name)
	}
	lead := func(kind wayKind, from, to [2]string, tell func(*way)) {
		i, known := at[from]
		j, reaches := at[to]
		if !known || !reaches {
			return
		}
		n := g.nodes[i]
		k := slices.IndexFunc(n.ways, func(w *way) bool { return w.kind == kind && w.to == j })
		if k < 0 {
			k, n.ways = len(n.ways), append(n.ways, &way{kind: kind, to: j})
		}
		g.nodes[j].entered = true
		tell(n.ways[k])
	}
	for _, b := range p.Bindings {
		kind := "queue"
		if b.ToExchange {
			kind = "exchange"
		}
		lead(binds, [2]string{"exchange", b.Source}, [2]string{kind, b.Target}, func(w *way) { w.keys = append(w.keys, b.Key) })
	}
	ttl := delivery.TTLs(p)
	for _, q := range p.Queues {
		x, _ := q.Args["x-dead-letter-exchange"].(string)
		lead(dies, [2]string{"queue", q.Name}, [2]string{"exchange", x}, func(w *way) {
			if d, has := ttl(q.Name); has {
				w.after = append(w.after, d)
			} else {
				w.always++
			}
		})
	}
	for _, x := range p.Exchanges {
		lead(otherwise, [2]string{"exchange", x.Name}, [2]string{"exchange", x.Alternate}, func(*way) {})
	}
	return g
}

// number is a word of a name that tells objects apart which are alike: 1h30m, 07.
var number = regexp.MustCompile(`^([0-9]+[a-z]*)+$`)

// anything stands for the words that differ among names.
const anything = "*"

// pattern is a name without its numbers. Those of the prefix stay.
func (g graph) pattern(name string) string {
	words := strings.Split(name, ".")
	for i := range words {
		if (i > 0 || g.prefix == "") && number.MatchString(words[i]) {
			words[i] = anything
		}
	}
	return strings.Join(words, ".")
}

// full is the name, with a * for what differs among several.
func (n *node) full() string {
	words := strings.Split(n.names[0], ".")
	for _, name := range n.names[1:] {
		for i, word := range strings.Split(name, ".") {
			if i < len(words) && words[i] != word {
				words[i] = anything
			}
		}
	}
	return strings.Join(words, ".")
}

// title is the name without the prefix.
func (n *node) title(prefix string) string { return strings.TrimPrefix(n.full(), prefix+".") }

// about says what it is, and of several how many there are.
func (n *node) about() string {
	last := len(n.names) - 1
	if last == 0 {
		return n.kind + ", " + n.sort
	}
	return fmt.Sprintf("%s, %s, %s to %s", cli.Count(last+1, n.kind), n.sort, n.differs(0), n.differs(last))
}

// differs is what tells one of the names from the others.
func (n *node) differs(i int) string {
	var own []string
	words := strings.Split(n.names[i], ".")
	for j, word := range strings.Split(n.full(), ".") {
		if word == anything && j < len(words) {
			own = append(own, words[j])
		}
	}
	return strings.Join(own, ".")
}

func (n *node) wrong(all map[[2]string]string) string {
	counts, kinds := map[string]int{}, []string{}
	for _, name := range n.names {
		if kind := all[[2]string{n.kind, name}]; kind != "" {
			if counts[kind] == 0 {
				kinds = append(kinds, kind)
			}
			counts[kind]++
		}
	}
	for i, kind := range kinds {
		if len(n.names) > 1 {
			kinds[i] = fmt.Sprintf("%d of %d %s", counts[kind], len(n.names), kind)
		}
	}
	return strings.Join(kinds, ", ")
}

// label says when a message goes this way.
func (w *way) label() string {
	switch {
	case w.kind == otherwise:
		return "otherwise"
	case w.kind == dies && w.always > 0:
		return "dead letters"
	case w.kind == dies:
		least, most := slices.Min(w.after), slices.Max(w.after)
		switch {
		case most == 0:
			return "dead letters, at once"
		case least == most:
			return "dead letters, after " + long(least)
		}
		return fmt.Sprintf("dead letters, after %s to %s", long(least), long(most))
	case len(w.keys) > 1:
		return cli.Count(len(w.keys), "key") + ", such as " + w.keys[0]
	case w.keys[0] == "":
		return "all"
	}
	return "key " + w.keys[0]
}

// long is a duration, with days if it has no less.
func long(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return cli.Short(d)
}

// order is that in which messages pass the nodes, as far as there is one.
func (g graph) order() []int {
	seen, after := make([]bool, len(g.nodes)), make([]int, 0, len(g.nodes))
	var visit func(int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, kind := range []wayKind{otherwise, dies, binds} { // what is visited last comes next
			for _, w := range slices.Backward(g.nodes[i].ways) {
				if w.kind == kind {
					visit(w.to)
				}
			}
		}
		after = append(after, i)
	}
	for _, next := range []func(*node) bool{
		func(n *node) bool { return !n.entered && len(n.ways) == 0 }, // alone: at the end
		func(n *node) bool { return !n.entered },
		func(*node) bool { return true },
	} {
		for i, n := range g.nodes {
			if next(n) {
				visit(i)
			}
		}
	}
	slices.Reverse(after)
	return after
}

// cut shortens a text to about so many narrow characters. A wide one, as of Chinese, counts twice.
func cut(text string, most int) string {
	const wideFrom, symbols, afterSymbols = 0x1100, 0x2000, 0x2bff // arrows and dots are narrow
	used := 0
	for i, r := range text {
		if used++; r >= wideFrom && (r < symbols || r > afterSymbols) {
			used++
		}
		if used > most {
			return text[:i] + "…"
		}
	}
	return text
}

// TitleY is where a box's title stands.
func (b box) TitleY() int { return b.Y + padding + line - 4 }

// AboutY is where it says what it is.
func (b box) AboutY() int { return b.TitleY() + line }

// WrongY is where it says what is wrong with it.
func (b box) WrongY() int { return b.AboutY() + line }

// WrongText is what fits into the box of what is wrong with it.
func (b box) WrongText() string { return cut(b.Wrong, wrongLength) }
