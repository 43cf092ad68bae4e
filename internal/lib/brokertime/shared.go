package brokertime

import (
	"context"
	"crypto/rand"
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// Shared is a queue that the questions of many processes go through. Its leader dates the answers, so
// that all learn one node's clock, whichever node they are connected to. If another node becomes the
// leader, that is a step of the clock, by as much as the two differ.
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
		Exchanges: []topology.Exchange{{Name: s.Answers, Kind: topology.Direct}},
		Queues: []topology.Queue{{Name: s.Queue, Role: topology.Clock, Args: amqp091.Table{
			"x-queue-type": string(delayer.Quorum), "x-message-ttl": int64(0), "x-dead-letter-exchange": s.Answers,
		}}},
		Bindings: []topology.Binding{{Source: s.Exchange, Key: s.Key, Target: s.Queue}},
	}
}

// shared is a wire through a Shared. Answers come back by the second routing key of a question, which
// is the name of a queue that is exclusive to the control connection.
type shared struct {
	Shared
	publish func(context.Context, broker.Publishing) error
	back    broker.Returns
	bound   bool // and no answer was missed since
	missing bool // something is to be declared again
}

func newShared(cfg Config) *shared {
	return &shared{Shared: *cfg.Shared, publish: cfg.Publish, back: broker.Returns{
		Control: cfg.Control, Name: namePrefix(cfg.Prefix) + rand.Text()[:8] + ".answers", Exchange: cfg.Shared.Answers,
	}}
}

// name implements [wire].
func (s *shared) name() string { return s.Queue }

// open implements [wire].
func (s *shared) open(ctx context.Context) (elsewhere bool, err error) {
	if s.missing {
		if err := s.Restore(ctx); err != nil {
			return false, err
		}
		s.missing = false
	}
	if s.bound && s.back.Alive() {
		return false, nil
	}
	_, err = s.back.Open(ctx, func(*amqp091.Channel) error { return nil })
	s.bound, s.missing = err == nil, broker.Code(err) == amqp091.NotFound
	return false, err
}

// send implements [wire].
func (s *shared) send(ctx context.Context, question message.Envelope) error {
	msg := message.Seal(amqp091.Publishing{DeliveryMode: amqp091.Transient}, question, nil, s.back.Queue())
	err := s.publish(ctx, broker.Publishing{Exchange: s.Exchange, Key: s.Key, Message: msg})
	s.missing = errors.Is(err, delayer.ErrUnroutable)
	return err
}

// answers implements [wire].
func (s *shared) answers() <-chan amqp091.Delivery { return s.back.Messages() }

// ended implements [wire].
func (s *shared) ended() { s.back.Ended() }

// suspect implements [wire].
func (s *shared) suspect() { s.bound = false }
