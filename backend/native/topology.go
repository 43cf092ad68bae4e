package native

import (
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"

	"github.com/delayer-go/delayer"
)

// names are those of the broker's objects:
//
//	<prefix>.native            the marker that holds the configuration
//	<prefix>.native.enter      where Publish publishes to
//	<prefix>.native.wait.0     where messages wait
type names struct {
	prefix string
	stage  delivery.Stage
}

func (n names) own() string       { return n.prefix + ".native" } // the marker
func (n names) enter() string     { return n.own() + ".enter" }
func (n names) wait(i int) string { return fmt.Sprintf("%s%s%d", n.prefix, delivery.NativeWait, i) }

// forgottenKey leads a question of a proof to the discard queue too: its own queue may be gone by
// the time that it is released.
const forgottenKey = message.Reserved + ":forgotten"

// Plan is the topology, without the delivery stage. The exchange has no alternate exchange, so that
// a message is returned if its queue is gone. Nothing is bound to it: see gate. It is a topic
// exchange since our keys have as many words as the user's.
func (s *strategy) Plan() topology.Plan {
	p := topology.Plan{
		Markers:   []topology.Exchange{{Name: s.own(), Kind: amqp091.ExchangeFanout, Alternate: fmt.Sprintf("%s:queues=%d", s.own(), s.queues)}},
		Exchanges: []topology.Exchange{{Name: s.enter(), Kind: amqp091.ExchangeTopic}},
		Bindings:  []topology.Binding{{Source: s.stage.Exchange(), Key: forgottenKey, Target: s.stage.Discard()}},
	}
	for i := range s.queues {
		const atOnce = 0 // once it is released
		q := objects.WaitingQueue(s.wait(i), delayer.Quorum, atOnce, s.stage.Exchange())
		q.Role, q.Args["x-message-ttl"] = role.Hidden, int64(atOnce)
		p.Queues = append(p.Queues, q)
	}
	return p
}
