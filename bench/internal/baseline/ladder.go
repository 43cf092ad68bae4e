package baseline

import (
	"fmt"
	"math/bits"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/topicladder"
	"github.com/delayer-go/delayer/topology"
)

// levels are those of the published ladders: 28 levels of 1 s reach 8.5 years.
const levels = 28

// ladderDesign is the ladder as its authors published it: the routing key spells the delay in
// binary, highest bit first, then the destination. Below level 0 a last exchange delivers by
// "#.destination".
//
// The designs differ in where a message enters: always at the top, or at its highest set bit.
func ladderDesign(cfg Config) design {
	tick := cfg.Tick
	if tick == 0 {
		tick = time.Second
	}
	root := cfg.Prefix + ".deliver"
	ladder := topicladder.Ladder{
		Levels: levels, End: root,
		Exchange: func(level int) string { return fmt.Sprintf("%s.level-%d", cfg.Prefix, level) },
		Queue: func(level int, next string) topology.Queue {
			return waitingQueue(fmt.Sprintf("%s.wait-%d", cfg.Prefix, level), cfg.QueueType, next, tick<<level)
		},
	}
	return design{
		topology: topology.Plan{
			Exchanges: []topology.Exchange{{Name: root, Kind: topology.Topic}},
			Bindings:  []topology.Binding{{Source: root, Key: "#." + cfg.Destination, Target: cfg.Destination}},
		}.Add(ladder.Plan()),
		limits: delayer.Limits{Max: (1<<levels - 1) * tick, Resolution: tick},
		route: func(ticks int64, _ *amqp091.Publishing) (string, string) {
			key := ladder.Key(ticks, cfg.Destination)
			switch {
			case cfg.Name == TopEntry:
				return ladder.Exchange(levels - 1), key
			case ticks == 0:
				return root, key
			}
			return ladder.Exchange(bits.Len64(uint64(ticks)) - 1), key
		},
	}
}
