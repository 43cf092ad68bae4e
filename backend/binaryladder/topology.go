package binaryladder

import (
	"fmt"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// names are those of the ladder's broker objects:
//
//	<prefix>.ladder              the marker that holds the configuration
//	<prefix>.ladder.enter        where Publish publishes to
//	<prefix>.ladder.wait.05      the queue of level 5; wait.05.63 with several bits a level
//	<prefix>.ladder.level.05     source: where the queues of level 5 dead-letter to
//	                             topic:  where the bit of level 5 is decided
type names struct{ prefix string }

func (n names) marker() string { return n.prefix + ".ladder" }
func (n names) enter() string  { return n.prefix + ".ladder.enter" }
func (n names) level(level int) string {
	return fmt.Sprintf("%s.ladder.level.%02d", n.prefix, level)
}

// waits begins the names of a level's queues.
func (n names) waits(level int) string { return fmt.Sprintf("%s.ladder.wait.%02d", n.prefix, level) }

func (n names) queue(l ladder, h hop) string {
	name := n.waits(h.level)
	if l.bits > 1 {
		name += fmt.Sprintf(".%02d", h.value)
	}
	return name
}

// blueprint knows what the broker must hold for a ladder.
type blueprint struct {
	ladder  ladder
	names   names
	kind    delayer.QueueType
	routing Routing
	stage   delivery.Stage
}

// config is written into the marker. Two Delayers share a topology only if it is equal.
func (b blueprint) config() string {
	return fmt.Sprintf("%s:routing=%s,levels=%d,bits=%d,tick=%v,%s",
		b.names.prefix, b.routing, b.ladder.levels, b.ladder.bits, b.ladder.tick, b.kind)
}

// plan is declared at Open. With several bits a level there may be hundreds of queues; each of
// those is declared when it is first used.
func (b blueprint) plan() topology.Plan {
	p := topology.Plan{
		Markers:   []topology.Marker{{Name: b.names.marker(), Config: b.config()}},
		Exchanges: []topology.Exchange{{Name: b.names.enter(), Kind: topology.Direct}},
	}
	kind := topology.Direct
	if b.routing == Topic {
		kind = topology.Topic
	}
	for level := range b.ladder.levels {
		p.Exchanges = append(p.Exchanges, topology.Exchange{Name: b.names.level(level), Kind: kind, Alternate: b.stage.Unroutable()})
	}
	if b.ladder.bits > 1 {
		return p
	}
	for level := range b.ladder.levels {
		p.Queues = append(p.Queues, b.queue(hop{level, 1}))
		if b.routing == Topic {
			p.Bindings = append(p.Bindings, b.decision(level)...)
		}
	}
	return p
}

// all adds every queue that may ever be declared.
func (b blueprint) all() topology.Plan {
	p := b.plan()
	if b.ladder.bits > 1 {
		for level := range b.ladder.levels {
			for value := 1; value < b.ladder.base(); value++ {
				p.Queues = append(p.Queues, b.queue(hop{level, value}))
			}
		}
	}
	return p
}

// links lists every possible link.
func (b blueprint) links() []link {
	var all []link
	for level := range b.ladder.levels {
		for value := 1; value < b.ladder.base(); value++ {
			to := hop{level, value}
			all = append(all, link{outside, to})
			for from := level + 1; from < b.ladder.levels && b.routing == Source; from++ {
				all = append(all, link{from, to})
			}
		}
		if b.routing == Source {
			all = append(all, link{level, hop{level: outside}})
		}
	}
	return all
}

// leaving returns the links that lead on from a waiting queue, for keys of so many words. The topic
// ladder has them in its plan.
func (b blueprint) leaving(queue string, words int) topology.Plan {
	var p topology.Plan
	for _, k := range b.links() {
		if k.from != outside && strings.HasPrefix(queue, b.names.waits(k.from)) {
			p = p.Add(b.steps(k, words))
		}
	}
	return p
}

// queue is where a hop waits.
func (b blueprint) queue(h hop) topology.Queue {
	return topology.WaitingQueue(b.names.queue(b.ladder, h), b.kind, b.ladder.ttl(h), b.after(h.level))
}

// after is where the queues of a level dead-letter to.
func (b blueprint) after(level int) string {
	if b.routing == Source {
		return b.names.level(level)
	}
	return b.below(level)
}

// below is where the topic ladder goes on from a level.
func (b blueprint) below(level int) string {
	if level == 0 {
		return b.stage.Exchange()
	}
	return b.names.level(level - 1)
}

// decision is the pair of bindings of a topic exchange: a 1 waits here, a 0 passes on.
func (b blueprint) decision(level int) []topology.Binding {
	x := b.names.level(level)
	return []topology.Binding{
		{Source: x, Key: b.ladder.topicPattern(level, 1), Target: b.names.queue(b.ladder, hop{level, 1})},
		{Source: x, Key: b.ladder.topicPattern(level, 0), Target: b.below(level), ToExchange: true},
	}
}

// A link is one step of an itinerary: out of a level, or into the ladder, and to a hop or the end.
type link struct {
	from int // a level; outside: into the ladder
	to   hop // level outside: out of the ladder
}

const outside = -1

// key is the routing key of a link. It names both ends: a message carries the keys of its whole
// itinerary to every exchange, and each exchange must match its own only.
func (b blueprint) key(k link, words int) string {
	from, to := ">", ">end"
	if k.from != outside {
		from = fmt.Sprintf("%d>", k.from)
	}
	if k.to.level == outside {
		return delivery.Pad(message.Reserved+":"+from[:len(from)-1]+to, words)
	}
	if b.ladder.bits == 1 {
		return delivery.Pad(fmt.Sprintf("%s:%s%d", message.Reserved, from, k.to.level), words)
	}
	return delivery.Pad(fmt.Sprintf("%s:%s%d/%d", message.Reserved, from, k.to.level, k.to.value), words)
}

// steps lists the objects that a link needs.
func (b blueprint) steps(k link, words int) topology.Plan {
	source := b.names.enter()
	if k.from != outside {
		source = b.names.level(k.from)
	}
	if k.to.level == outside {
		return topology.Plan{Bindings: []topology.Binding{
			{Source: source, Key: b.key(k, words), Target: b.stage.Exchange(), ToExchange: true},
		}}
	}
	p := topology.Plan{Bindings: []topology.Binding{
		{Source: source, Key: b.key(k, words), Target: b.names.queue(b.ladder, k.to)},
	}}
	if b.ladder.bits > 1 {
		p.Queues = []topology.Queue{b.queue(k.to)}
	}
	return p
}
