package baseline

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// levels are those of the published ladders: 28 levels of 1 s reach 8.5 years.
const levels = 28

// tick is a second too, unless another is asked for.
func (c Config) tick() time.Duration {
	if c.Tick == 0 {
		return time.Second
	}
	return c.Tick
}

// ladderDesign is the ladder as its authors published it: the routing key spells the delay in
// binary, highest bit first, then the destination. The exchange of level k looks at that level's
// word alone: 1 waits in its queue of 2^k ticks, 0 passes on to the exchange of level k-1. Below
// level 0 a last exchange delivers by "#.destination".
//
// The designs differ in where a message enters: always at the top, or at its highest set bit.
func ladderDesign(cfg Config) design {
	return design{
		topology: ladderTopology(cfg),
		limits:   delayer.Limits{Max: (1<<levels - 1) * cfg.tick(), Resolution: cfg.tick()},
		route: func(ticks int64, _ *amqp091.Publishing) (string, string) {
			level := levels - 1
			if cfg.Name == BitEntry {
				level = bits.Len64(uint64(ticks)) - 1
			}
			return ladderExchange(cfg.Prefix, level), ladderKey(ticks, cfg.Destination)
		},
	}
}

func ladderTopology(cfg Config) topology {
	var t topology
	root := ladderExchange(cfg.Prefix, -1)
	t.exchanges = append(t.exchanges, exchange{name: root, kind: amqp091.ExchangeTopic})
	t.bindings = append(t.bindings, binding{from: root, key: "#." + cfg.Destination, to: cfg.Destination, toQueue: true})
	for level := range levels {
		here, below := ladderExchange(cfg.Prefix, level), ladderExchange(cfg.Prefix, level-1)
		wait := cfg.Prefix + ".wait-" + strconv.Itoa(level)
		ttl := cfg.tick() << level
		t.exchanges = append(t.exchanges, exchange{name: here, kind: amqp091.ExchangeTopic})
		t.queues = append(t.queues, queue{wait, waitingArgs(cfg.QueueType, below, ttl)})
		t.bindings = append(t.bindings,
			binding{from: here, key: ladderPattern(level, "1"), to: wait, toQueue: true},
			binding{from: here, key: ladderPattern(level, "0"), to: below})
	}
	return t
}

// ladderExchange names the exchange of a level; -1 is the one that delivers.
func ladderExchange(prefix string, level int) string {
	if level < 0 {
		return prefix + ".deliver"
	}
	return prefix + ".level-" + strconv.Itoa(level)
}

// ladderPattern matches the keys whose word for that level is bit: "*.*.1.#".
func ladderPattern(level int, bit string) string {
	return strings.Repeat("*.", levels-1-level) + bit + ".#"
}

// ladderKey spells ticks in as many words as there are levels, then the destination:
// "0.…1.0.1.0.queue".
func ladderKey(ticks int64, destination string) string {
	var b strings.Builder
	b.Grow(2*levels + len(destination))
	for level := levels - 1; level >= 0; level-- {
		b.WriteByte('0' + byte(ticks>>level&1))
		b.WriteByte('.')
	}
	b.WriteString(destination)
	return b.String()
}
