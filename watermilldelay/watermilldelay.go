// Package watermilldelay is a Publisher for Watermill (ThreeDotsLabs/watermill) whose messages may
// arrive later. The delay is what Watermill's own package components/delay writes into a message:
//
//	publisher := watermilldelay.NewPublisher(d, watermilldelay.Config{})
//	msg := message.NewMessage(watermill.NewUUID(), payload)
//	delay.Message(msg, delay.For(30*time.Minute))
//	err := publisher.Publish("orders.expired", msg)
//
// A message without a delay is published at once. delay.NewPublisher may wrap the Publisher, for
// delays from a context and for a default.
//
// # Subscribers
//
// Consume with watermill-amqp, whose messages these are. RabbitMQ adds headers to a delayed message
// that are no strings, such as x-death. watermill-amqp's DefaultMarshaler refuses them, and the
// message comes again for ever. So give its subscriber [StringHeaders], from version 3.1 on:
//
//	config := amqp.NewDurableQueueConfig(url)
//	config.Marshaler = amqp.DefaultMarshaler{PreprocessDelivery: watermilldelay.StringHeaders}
//
// [delayer.Header] then is in the metadata. So are the keys of components/delay: a message that is
// published again with the metadata of an earlier one is not delayed again, if its time has passed.
//
// # Topics
//
// A topic is the name of a queue, as with watermill-amqp's NewDurableQueueConfig. For its
// NewDurablePubSubConfig, where a topic is a fanout exchange, set [Config].Address. The Publisher
// declares nothing: a queue or an exchange that does not exist is [delayer.ErrUnroutable]. A
// subscriber's SubscribeInitialize declares it.
//
// Nobody links Watermill who does not import this package.
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

// Config says where messages go, and what is in them. A zero field means its default.
type Config struct {
	// Address returns the exchange and the routing key of a topic. Default: the default exchange,
	// and the topic as the key.
	Address func(topic string) (exchange, key string)

	// Marshal makes the message for AMQP. Default: [Marshal]. The method of a Marshaler of
	// watermill-amqp also fits.
	Marshal func(*message.Message) (amqp091.Publishing, error)
}

// A Publisher is a [message.Publisher] that publishes through a Delayer. It is safe for concurrent
// use.
type Publisher struct {
	delayer delayer.Delayer
	config  Config

	mu     sync.RWMutex // held for reading while messages are published
	closed bool
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a Publisher on d. The caller closes d.
func NewPublisher(d delayer.Delayer, config Config) *Publisher {
	if config.Address == nil {
		config.Address = func(topic string) (exchange, key string) { return "", topic }
	}
	if config.Marshal == nil {
		config.Marshal = Marshal
	}
	return &Publisher{delayer: d, config: config}
}

// Publish returns once the broker has confirmed the messages, or the context of one has ended. Those
// that follow one another with the same context are sent together ([delayer.PublishBatch]).
//
// If one of the messages cannot be marshalled, or its delay cannot be read, none is published. If
// some fail later, the others are published all the same. The error of several messages is then a
// [*MessagesError], and that of one is the Delayer's.
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
		results = append(results, delayer.PublishBatch(messages[from].Context(), p.delayer, list[from:to])...)
		from = to
	}
	return summarize(results)
}

// same reports whether two contexts are one. Comparing contexts of some types would panic.
func same(a, b context.Context) bool { return reflect.ValueOf(a).Comparable() && a == b }

// list turns all messages into those of a Delayer.
func (p *Publisher) list(topic string, messages []*message.Message) ([]delayer.Message, error) {
	exchange, key := p.config.Address(topic)
	list := make([]delayer.Message, len(messages))
	for i, msg := range messages {
		delay, err := delayOf(msg.Metadata, time.Now())
		if err != nil {
			return nil, fail(topic, delayer.ErrInvalid, err)
		}
		publishing, err := p.config.Marshal(msg)
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

// Close waits for the calls of Publish that are under way. Later ones return [delayer.ErrClosed].
// The Delayer stays open.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}
