package brokertime

import (
	"context"
	"crypto/rand"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A wire carries questions to the broker and receives the answers. One goroutine uses it.
type wire interface {
	// name is the name of the queue in which questions expire.
	name() string
	// open makes sure that the queues and the consumer exist. elsewhere reports that from now on
	// another node may answer, of which nothing is known.
	open(ctx context.Context) (elsewhere bool, err error)
	// send sends a question. Its answer has the same envelope.
	send(ctx context.Context, question message.Envelope) error
	// answers receives questions that have expired; nil before open.
	answers() <-chan amqp091.Delivery
	// ended notes that answers was closed.
	ended()
	// suspect notes that an answer did not come: something may have been deleted.
	suspect()
}

// queues are a wire. The queues are exclusive to the control connection and deleted with it, the
// exchange with the queues:
//
//	<prefix>.clock.<id>              a direct exchange
//	<prefix>.clock.<id>.expiring     the queue in which questions expire
//	<prefix>.clock.<id>.answers.<id> the queue that they are dead-lettered to
type queues struct {
	exchange string
	publish  func(context.Context, broker.Publishing) error
	back     broker.Returns
	declared bool // and nothing was missed since
}

// namePrefix begins all names.
func namePrefix(prefix string) string { return prefix + ".clock." }

// Routing keys of the exchange.
const keyQuestion, keyAnswer = "question", "answer"

func newQueues(cfg Config) *queues {
	exchange := namePrefix(cfg.Prefix) + rand.Text()[:8]
	return &queues{exchange: exchange, publish: cfg.Publish, back: broker.Returns{
		Control: cfg.Control, Name: exchange + ".answers", Exchange: exchange, Key: keyAnswer,
	}}
}

// name implements [wire].
func (q *queues) name() string { return q.exchange + ".expiring" }

// open implements [wire].
func (q *queues) open(ctx context.Context) (elsewhere bool, err error) {
	if q.declared && q.back.Alive() {
		return false, nil
	}
	elsewhere, err = q.back.Open(ctx, q.declare)
	q.declared = err == nil
	return elsewhere, err
}

func (q *queues) declare(ch *amqp091.Channel) error {
	const durable, autoDelete, internal, exclusive, waitForAnswer = false, true, false, true, false
	if err := ch.ExchangeDeclare(q.exchange, amqp091.ExchangeDirect, durable, autoDelete, internal, waitForAnswer, nil); err != nil {
		return err
	}
	_, err := ch.QueueDeclare(q.name(), durable, !autoDelete, exclusive, waitForAnswer, amqp091.Table{
		"x-queue-type": "classic", "x-message-ttl": int64(0),
		"x-dead-letter-exchange": q.exchange, "x-dead-letter-routing-key": keyAnswer,
	})
	if err != nil {
		return err
	}
	return ch.QueueBind(q.name(), keyQuestion, q.exchange, waitForAnswer, nil)
}

// send implements [wire].
func (q *queues) send(ctx context.Context, question message.Envelope) error {
	msg := amqp091.Publishing{DeliveryMode: amqp091.Transient}
	return q.publish(ctx, broker.Publishing{Exchange: q.exchange, Key: keyQuestion, Message: message.Seal(msg, question, nil)})
}

// answers implements [wire].
func (q *queues) answers() <-chan amqp091.Delivery { return q.back.Messages() }

// ended implements [wire].
func (q *queues) ended() { q.back.Ended() }

// suspect implements [wire].
func (q *queues) suspect() { q.declared = false }
