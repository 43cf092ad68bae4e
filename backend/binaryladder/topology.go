package binaryladder

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// names are those of the ladder's broker objects:
//
//	<prefix>.ladder              the marker that holds the configuration
//	<prefix>.ladder.enter        where Publish publishes to
//	<prefix>.ladder.wait.1m      the queue of a step
//	<prefix>.ladder.step.1m      source: where that queue dead-letters to
//	                             topic:  where the bit of that step is decided
//
// and with routing topic, for publishers that write the bits of the delay into the routing key
// (levels count from 0):
//
//	<prefix>.ladder.N3           where the bit of level 3 is decided; they publish to the highest
//	<prefix>.ladder.Q3           the queue of level 3
//	<prefix>.ladder.due          quorum only: what is due passes through here, so that none stalls a queue
//	<prefix>.ladder.due.gate     quorum only: the way to the discard queue, for as long as there is the next one
//	<prefix>.ladder.exchange     what is bound here gets them
type names struct{ prefix string }

func (n names) marker() string { return n.prefix + ".ladder" }
func (n names) enter() string  { return n.prefix + ".ladder.enter" }
func (n names) exchange(step time.Duration) string {
	return n.prefix + ".ladder.step." + objects.DurationName(step)
}

func (n names) level(level int) string      { return fmt.Sprintf("%s.ladder.N%d", n.prefix, level) }
func (n names) levelQueue(level int) string { return fmt.Sprintf("%s.ladder.Q%d", n.prefix, level) }
func (n names) due() string                 { return n.prefix + ".ladder.due" }
func (n names) plain() string               { return n.prefix + ".ladder.exchange" }

func (n names) queue(step time.Duration) string {
	return n.prefix + ".ladder.wait." + objects.DurationName(step)
}

// blueprint knows what the broker must hold for a ladder.
type blueprint struct {
	ladder  *ladder
	names   names
	kind    delayer.QueueType
	routing Routing
	stage   delivery.Stage
}

// config is written into the marker. Two Delayers share a topology only if it is equal. A hash
// stands for the steps, because the broker quotes two configurations in 255 bytes.
func (b blueprint) config() string {
	hash := sha256.New()
	for _, step := range b.ladder.steps {
		fmt.Fprint(hash, step, " ")
	}
	return fmt.Sprintf("%s:%s,%s:%d:%.4x,tick=%v,%s",
		b.names.prefix, b.routing, b.ladder.label, len(b.ladder.steps), hash.Sum(nil), b.ladder.tick, b.kind)
}

// plan is declared at Open: everything but the links.
func (b blueprint) plan() topology.Plan {
	p := topology.Plan{
		Markers:   []topology.Marker{{Name: b.names.marker(), Config: b.config()}},
		Exchanges: []topology.Exchange{{Name: b.names.enter(), Kind: topology.Direct}},
	}
	kind := topology.Direct
	if b.routing == Topic {
		kind = topology.Topic
	}
	for i, step := range b.ladder.steps {
		p.Exchanges = append(p.Exchanges, topology.Exchange{Name: b.names.exchange(step), Kind: kind, Alternate: b.stage.Unroutable()})
		p.Queues = append(p.Queues, objects.WaitingQueue(b.names.queue(step), b.kind, step, b.after(i)))
		if b.routing == Topic {
			p.Bindings = append(p.Bindings, b.decision(i)...)
		}
	}
	return p
}

// after is where the queue of a step dead-letters to.
func (b blueprint) after(step int) string {
	switch {
	case b.routing == Source:
		return b.names.exchange(b.ladder.steps[step])
	case step == 0:
		return b.stage.Exchange()
	}
	return b.names.exchange(b.ladder.steps[step-1])
}

// decision is the pair of bindings of a topic exchange: a 1 waits here, a 0 passes on.
func (b blueprint) decision(step int) []topology.Binding {
	x := b.names.exchange(b.ladder.steps[step])
	return []topology.Binding{
		{Source: x, Key: b.ladder.topicPattern(step, 1), Target: b.names.queue(b.ladder.steps[step])},
		{Source: x, Key: b.ladder.topicPattern(step, 0), Target: b.after(step), ToExchange: true},
	}
}

// plain is the ladder for keys without marks: 1.0.1.0.work waits 8 s and then 2 s, and goes where
// #.work is bound. It has queues of its own: a Delayer's messages carry keys of their users, which
// would be taken for bits.
//
// A key of too few words finds no way at some level, and is misrouted. Behind the last level it is
// as with the tiers that a binding leads to: nothing may be bound there, and messages that no queue
// takes would stall a quorum queue (see delivery.Stage.Discard).
func (b blueprint) plain() topology.Plan {
	n := b.names
	p := topology.Plan{Exchanges: []topology.Exchange{{Name: n.plain(), Kind: topology.Topic, Alternate: b.stage.Unroutable()}}}
	next := n.plain()
	if b.kind == delayer.Quorum {
		next = n.due()
		p = p.Add(b.stage.Copying(next, n.plain()))
	}
	for level, step := range b.ladder.steps {
		x, q := n.level(level), objects.WaitingQueue(n.levelQueue(level), b.kind, step, next)
		words := strings.Repeat("*.", len(b.ladder.steps)-1-level)
		p = p.Add(topology.Plan{
			Exchanges: []topology.Exchange{{Name: x, Kind: topology.Topic, Alternate: b.stage.Unroutable()}},
			Queues:    []topology.Queue{q},
			Bindings: []topology.Binding{
				{Source: x, Key: words + "1.#", Target: q.Name},
				{Source: x, Key: words + "0.#", Target: next, ToExchange: true},
			},
		})
		next = x
	}
	for i := range p.Exchanges {
		p.Exchanges[i].Optional = true
	}
	for i := range p.Queues {
		p.Queues[i].Optional = true
	}
	return p
}
