package binaryladder

import (
	"crypto/sha256"
	"fmt"
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
type names struct{ prefix string }

func (n names) marker() string { return n.prefix + ".ladder" }
func (n names) enter() string  { return n.prefix + ".ladder.enter" }
func (n names) exchange(step time.Duration) string {
	return n.prefix + ".ladder.step." + objects.DurationName(step)
}

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
