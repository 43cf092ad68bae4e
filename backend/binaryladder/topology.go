package binaryladder

import (
	"crypto/sha256"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/topicladder"
	"github.com/delayer-go/delayer/internal/lib/ttl"
	"github.com/delayer-go/delayer/topology"
)

// blueprint knows what the broker must hold for a ladder:
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
type blueprint struct {
	ladder  ladder
	prefix  string
	kind    delayer.QueueType
	routing Routing
	stage   delivery.Stage
}

func (b blueprint) exchange(step time.Duration) string {
	return b.prefix + ".ladder.step." + objects.DurationName(step)
}

func (b blueprint) queue(step time.Duration) string {
	return b.prefix + delivery.LadderWait + objects.DurationName(step)
}

// queues are where messages wait, and what is declared at Open.
func (b blueprint) queues() ttl.Queues {
	q := ttl.Queues{
		Backend: Name, Stage: b.stage, Plan: b.plan(), Limits: ttl.Guarantees(b.kind),
		Steps: b.ladder.Steps, Enter: b.prefix + ".ladder.enter", Queue: b.queue,
	}
	q.Limits.Max, q.Limits.Resolution = b.ladder.longest, b.ladder.Tick
	if b.routing == Source {
		q.Exchange = b.exchange
		return q
	}
	topic := b.topic()
	q.Topic, q.Limits.ExactTopics = &topic, false
	return q
}

// config is written into the marker. Two Delayers share a topology only if it is equal. A hash
// stands for the steps, because the broker quotes two configurations in 255 bytes.
func (b blueprint) config() string {
	hash := sha256.New()
	for _, step := range b.ladder.Waits {
		fmt.Fprint(hash, step, " ")
	}
	return fmt.Sprintf("%s:%s,%s:%d:%.4x,tick=%v,%s",
		b.prefix, b.routing, b.ladder.label, len(b.ladder.Waits), hash.Sum(nil), b.ladder.Tick, b.kind)
}

// plan is declared at Open: everything but the links.
func (b blueprint) plan() topology.Plan {
	p := topology.Plan{
		Markers:   []topology.Exchange{{Name: b.prefix + ".ladder", Kind: amqp091.ExchangeFanout, Alternate: b.config()}},
		Exchanges: []topology.Exchange{{Name: b.prefix + ".ladder.enter", Kind: amqp091.ExchangeDirect}},
	}
	if b.routing == Topic {
		return p.Add(b.topic().Plan())
	}
	for _, step := range b.ladder.Waits {
		next := b.exchange(step)
		p.Exchanges = append(p.Exchanges, topology.Exchange{Name: next, Kind: amqp091.ExchangeDirect, Alternate: b.stage.Unroutable()})
		p.Queues = append(p.Queues, objects.WaitingQueue(b.queue(step), b.kind, step, next))
	}
	return p
}

// topic is the ladder of topic exchanges. The broker matches all keys of a message at every
// exchange: the user's keys in the ladder, and ours at the user's exchange. So the words of a delay
// are not plain digits: "~1" and "~0" are in no binding of a user's, and no key of a user's has the
// reserved first word.
func (b blueprint) topic() topicladder.Ladder {
	return topicladder.Ladder{
		Levels: len(b.ladder.Waits), First: message.Reserved + ".", Mark: "~",
		End: b.stage.Exchange(), Fallback: b.stage.Unroutable(),
		Exchange: func(level int) string { return b.exchange(b.ladder.Waits[level]) },
		Queue: func(level int, next string) topology.Queue {
			step := b.ladder.Waits[level]
			return objects.WaitingQueue(b.queue(step), b.kind, step, next)
		},
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
	end := b.prefix + ".ladder.exchange"
	ladder := topicladder.Ladder{
		Levels: len(b.ladder.Waits), End: end, Fallback: b.stage.Unroutable(),
		Exchange: func(level int) string { return fmt.Sprintf("%s.ladder.N%d", b.prefix, level) },
		Queue: func(level int, next string) topology.Queue {
			return objects.WaitingQueue(fmt.Sprintf("%s.ladder.Q%d", b.prefix, level), b.kind, b.ladder.Waits[level], next)
		},
	}
	p := topology.Plan{Exchanges: []topology.Exchange{{Name: end, Kind: amqp091.ExchangeTopic, Alternate: b.stage.Unroutable()}}}
	if b.kind == delayer.Quorum {
		ladder.End = b.prefix + ".ladder.due"
		p = p.Add(b.stage.Copying(ladder.End, end))
	}
	return ttl.Optional(p.Add(ladder.Plan()))
}
