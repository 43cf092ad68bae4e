package guard

import (
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/topology"
)

// keyFull leads to the queue that must refuse messages. keyNowhere leads nowhere.
const keyFull, keyNowhere = "full", "nowhere"

// watchName is the exchange that probes are published to.
func watchName(prefix string) string { return prefix + ".watch" }

// returnExchange is the exchange that probes are dead-lettered to.
func returnExchange(prefix string) string { return watchName(prefix) + ".back" }

// fullQueue is the queue that must refuse messages.
func fullQueue(prefix string) string { return watchName(prefix) + ".full" }

// Plan lists the objects that the Delayers of a prefix share for their probes.
func Plan(prefix string, kind delayer.QueueType) topology.Plan {
	in := watchName(prefix)
	p := topology.Plan{Exchanges: []topology.Exchange{
		{Name: in, Kind: topology.Direct},
		{Name: returnExchange(prefix), Kind: topology.Direct},
	}}
	if kind == delayer.Quorum {
		p.Queues = []topology.Queue{{Name: fullQueue(prefix), Role: topology.Probe, Args: amqp091.Table{
			"x-queue-type": string(kind), "x-max-length": int64(1), "x-overflow": "reject-publish",
		}}}
		p.Bindings = []topology.Binding{{Source: in, Key: keyFull, Target: fullQueue(prefix)}}
	}
	return p
}
