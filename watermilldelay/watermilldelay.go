// Package watermilldelay delays the messages of Watermill (ThreeDotsLabs/watermill) programs. Its
// [Publisher] reads the delay that Watermill's own package components/delay writes into a message:
//
//	publisher := watermilldelay.NewPublisher(d, watermilldelay.Config{})
//	msg := message.NewMessage(watermill.NewUUID(), payload)
//	delay.Message(msg, delay.For(30*time.Minute))
//	err := publisher.Publish("orders.expired", msg)
//
// A message without a delay is published at once. To set a default delay, or to take delays from
// contexts, wrap the Publisher with delay.NewPublisher.
//
// # Subscribers
//
// Consume with watermill-amqp, version 3.1 or later: the messages have its format. RabbitMQ adds
// headers to a delayed message that are not strings, such as x-death. watermill-amqp's
// DefaultMarshaler refuses such a message, and it is delivered again for ever. [StringHeaders]
// prevents that:
//
//	config := amqp.NewDurableQueueConfig(url)
//	config.Marshaler = amqp.DefaultMarshaler{PreprocessDelivery: watermilldelay.StringHeaders}
//
// The metadata then has [delayer.Header] and the keys of components/delay. If you publish a message
// again with that metadata, it is not delayed again once its time has passed.
//
// # Topics
//
// A topic is the name of a queue, as with watermill-amqp's NewDurableQueueConfig. For its
// NewDurablePubSubConfig, where a topic is a fanout exchange, set [Config].Address. The Publisher
// declares nothing. If the queue or exchange does not exist, Publish returns
// [delayer.ErrUnroutable]; a subscriber's SubscribeInitialize declares it.
//
// Only programs that import this package link Watermill.
package watermilldelay

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Config says where messages go and what is in them. A zero field has its default.
type Config struct {
	// Address returns the exchange and the routing key of a topic. Default: the default exchange,
	// and the topic as the key.
	Address func(topic string) (exchange, key string)

	// Marshal converts a message. The Marshal method of a watermill-amqp Marshaler also fits.
	// Default: [Marshal].
	Marshal func(*message.Message) (amqp091.Publishing, error)
}

// A Publisher is a [message.Publisher] that publishes through a Delayer. It is safe for concurrent
// use.
type Publisher struct {
	delayer delayer.Delayer
	cfg     Config

	mu     sync.RWMutex // held for reading while messages are published
	closed bool
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a Publisher on d. The caller closes d.
func NewPublisher(d delayer.Delayer, cfg Config) *Publisher {
	if cfg.Address == nil {
		cfg.Address = func(topic string) (exchange, key string) { return "", topic }
	}
	if cfg.Marshal == nil {
		cfg.Marshal = Marshal
	}
	return &Publisher{delayer: d, cfg: cfg}
}

// Publish returns once the broker has confirmed the messages. Each is bounded by its own context;
// consecutive messages with the same context are sent as one batch.
//
// If a message cannot be marshalled, or its delay cannot be read, none is published. If some fail
// later, the others are still published. The error of several messages is then a [*MessagesError],
// and that of one message is the Delayer's.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return fail(topic, delayer.ErrClosed, nil)
	}
	list, err := p.list(topic, messages)
	if err != nil {
		return err
	}
	var results []error
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && same(messages[to].Context(), messages[from].Context()) {
			to++
		}
		results = append(results, p.delayer.PublishBatch(messages[from].Context(), list[from:to])...)
		from = to
	}
	return summarize(results)
}

// same reports whether two contexts are the same. Comparing some types with == would panic.
func same(a, b context.Context) bool { return reflect.ValueOf(a).Comparable() && a == b }

// list converts all messages.
func (p *Publisher) list(topic string, messages []*message.Message) ([]delayer.Message, error) {
	exchange, key := p.cfg.Address(topic)
	list := make([]delayer.Message, len(messages))
	for i, msg := range messages {
		delay, err := delayOf(msg.Metadata, time.Now())
		if err != nil {
			return nil, fail(topic, delayer.ErrInvalid, err)
		}
		publishing, err := p.cfg.Marshal(msg)
		if err != nil {
			return nil, fail(topic, delayer.ErrInvalid, err)
		}
		list[i] = delayer.Message{Exchange: exchange, Key: key, Delay: delay, Publishing: publishing}
	}
	return list, nil
}

func fail(topic string, kind, cause error) error {
	return &delayer.Error{Op: "publish", Object: fmt.Sprintf("to topic %.300q", topic), Kind: kind, Cause: cause}
}

// Close waits for running calls of Publish. Later calls return [delayer.ErrClosed]. The Delayer
// stays open.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}
