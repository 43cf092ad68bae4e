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

// The flags of a declaration, by name.
const (
	durable, autoDelete, exclusive, internal, wait = true, false, false, false, false
	ifUnused, ifEmpty                              = false, false
)

// waitingQueue is a queue in which messages wait, ttl long if that is not 0, before they go to the
// exchange next.
func waitingQueue(name, queueType, next string, ttl time.Duration) topology.Queue {
	args := amqp091.Table{"x-queue-type": queueType, "x-dead-letter-exchange": next}
	if ttl > 0 {
		args["x-message-ttl"] = ttl.Milliseconds()
	}
	if queueType == "quorum" {
		// At-least-once is silently off without reject-publish.
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	return topology.Queue{Name: name, Args: args}
}

// declare does so with what a baseline needs. The destination queue is not part of it.
func declare(ch *amqp091.Channel, p topology.Plan) error {
	for _, x := range p.Exchanges {
		if err := ch.ExchangeDeclare(x.Name, x.Kind, durable, autoDelete, internal, wait, x.Args()); err != nil {
			return fmt.Errorf("exchange %s: %w", x.Name, err)
		}
	}
	for _, q := range p.Queues {
		if _, err := ch.QueueDeclare(q.Name, durable, autoDelete, exclusive, wait, q.Args); err != nil {
			return fmt.Errorf("queue %s: %w", q.Name, err)
		}
	}
	for _, b := range p.Bindings {
		bind := ch.QueueBind
		if b.ToExchange {
			bind = ch.ExchangeBind
		}
		if err := bind(b.Target, b.Key, b.Source, wait, nil); err != nil {
			return fmt.Errorf("binding %s to %s: %w", b.Source, b.Target, err)
		}
	}
	return nil
}

// remove deletes what declare declares. What does not exist is no error.
func remove(ch *amqp091.Channel, p topology.Plan) error {
	for _, q := range p.Queues {
		if _, err := ch.QueueDelete(q.Name, ifUnused, ifEmpty, wait); err != nil {
			return fmt.Errorf("queue %s: %w", q.Name, err)
		}
	}
	for _, x := range p.Exchanges {
		if err := ch.ExchangeDelete(x.Name, ifUnused, wait); err != nil {
			return fmt.Errorf("exchange %s: %w", x.Name, err)
		}
	}
	return nil
}

// onChannel gives do a channel of its own: an error there closes that channel alone.
func onChannel(conn *amqp091.Connection, p topology.Plan, do func(*amqp091.Channel, topology.Plan) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return do(ch, p)
}
