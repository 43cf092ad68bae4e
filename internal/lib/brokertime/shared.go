package brokertime

import (
	"context"
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

// Shared is a queue that the questions of many processes go through. Its leader dates the answers,
// so that all learn one node's clock, whichever node they are connected to. If another node becomes
// the leader, that is a step of the clock, by as much as the two differ.
type Shared struct {
	Queue         string
	Exchange, Key string // lead to the queue
	Answers       string // the exchange that it dead-letters to

	// Restore declares these again. It is called when one is missing.
	Restore func(context.Context) error
}

// Plan is what a Shared needs beside its Exchange.
func (s Shared) Plan() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: s.Answers, Kind: amqp091.ExchangeDirect}},
		Queues: []topology.Queue{{Name: s.Queue, Role: role.Clock, Args: amqp091.Table{
			"x-queue-type": string(delayer.Quorum), "x-message-ttl": int64(0), "x-dead-letter-exchange": s.Answers,
		}}},
		Bindings: []topology.Binding{{Source: s.Exchange, Key: s.Key, Target: s.Queue}},
	}
}

// A wire carries questions to the broker and receives the answers. One goroutine uses it.
type wire interface {
	open(ctx context.Context) error // makes sure that the queues and the consumer exist
	send(ctx context.Context, question message.Envelope) error
	answers() <-chan amqp091.Delivery // questions that have expired; nil before open
	lost()                            // answers was closed, or one did not come: something may have been deleted
}

// shared is a wire through a Shared. Answers come back by the second routing key of a question,
// which is the name of a queue that is exclusive to the control connection.
type shared struct {
	Shared
	publish func(context.Context, broker.Publishing) error
	back    broker.Returns
	missing bool // something is to be declared again
}

func (s *shared) open(ctx context.Context) error {
	if s.missing {
		if err := s.Restore(ctx); err != nil {
			return err
		}
		s.missing = false
	}
	err := s.back.Open(ctx)
	s.missing = broker.Code(err) == amqp091.NotFound
	return err
}

// atOnce is the TTL of a question, also in a queue that has none yet. Up to RabbitMQ 4.0 a quorum
// queue that is being declared takes messages before it has its arguments
// (rabbit_quorum_queue:start_cluster/1 in 3.10.8). A question without a TTL would stay for ever,
// and so would all behind it.
const atOnce = "0"

func (s *shared) send(ctx context.Context, question message.Envelope) error {
	msg := message.Seal(amqp091.Publishing{DeliveryMode: amqp091.Transient, Expiration: atOnce}, question, nil, s.back.Queue())
	err := s.publish(ctx, broker.Publishing{Exchange: s.Exchange, Key: s.Key, Message: msg})
	s.missing = errors.Is(err, delayer.ErrUnroutable)
	return err
}

func (s *shared) answers() <-chan amqp091.Delivery { return s.back.Messages() }

func (s *shared) lost() { s.back.Ended() }
