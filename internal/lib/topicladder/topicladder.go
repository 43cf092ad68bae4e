// Package topicladder spells a delay in a routing key, one word for each bit, and lets topic
// exchanges decide by these words. Messages with the key 1.0.1.0.work wait in the queues of levels
// 3 and 1. It is pure.
package topicladder

import (
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/topology"
)

// A Ladder has a level for each bit of a delay. The exchange of a level looks at one word of the
// key alone: 1 waits in the level's queue, 0 passes on. Both then go to the exchange of the level
// below, and from level 0 to End.
type Ladder struct {
	Levels   int
	First    string // the first words of every key, each with a dot behind it
	Mark     string // written before each bit
	End      string // the exchange behind level 0
	Fallback string // the alternate exchange of each level, or ""
	Exchange func(level int) string
	// Queue is where messages of a level wait before they go to the exchange next.
	Queue func(level int, next string) topology.Queue
}

// Plan lists the exchanges, queues and bindings of all levels. End is not among them.
func (l Ladder) Plan() topology.Plan {
	var p topology.Plan
	next := l.End
	for level := range l.Levels {
		x, q := l.Exchange(level), l.Queue(level, next)
		above := l.First + strings.Repeat("*.", l.Levels-1-level) + l.Mark
		p.Exchanges = append(p.Exchanges, topology.Exchange{Name: x, Kind: amqp091.ExchangeTopic, Alternate: l.Fallback})
		p.Queues = append(p.Queues, q)
		p.Bindings = append(p.Bindings,
			topology.Binding{Source: x, Key: above + "1.#", Target: q.Name},
			topology.Binding{Source: x, Key: above + "0.#", Target: next, ToExchange: true})
		next = x
	}
	return p
}

// Key is the routing key of a delay in ticks: a word for each level, the highest first, and last
// the destination.
func (l Ladder) Key(ticks int64, destination string) string {
	var b strings.Builder
	b.Grow(len(l.First) + l.Levels*(len(l.Mark)+2) + len(destination))
	b.WriteString(l.First)
	for level := l.Levels - 1; level >= 0; level-- {
		b.WriteString(l.Mark)
		b.WriteByte('0' + byte(ticks>>level&1))
		b.WriteByte('.')
	}
	b.WriteString(destination)
	return b.String()
}
