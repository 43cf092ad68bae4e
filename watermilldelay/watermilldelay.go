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
// Consume with watermill-amqp, version 3.1 or later, and with [StringHeaders]: the headers that
// RabbitMQ adds to a delayed message, such as x-death, are not strings, and DefaultMarshaler refuses
// them.
//
//	config := amqp.NewDurableQueueConfig(url)
//	config.Marshaler = amqp.DefaultMarshaler{PreprocessDelivery: watermilldelay.StringHeaders}
//
// # Topics
//
// A topic is the name of a queue, as with NewDurableQueueConfig. For NewDurablePubSubConfig, where a
// topic is a fanout exchange, set [Config].Address. The Publisher declares nothing: if the queue or
// exchange does not exist, Publish returns [delayer.ErrUnroutable].
//
// Only programs that import this package link Watermill.
package watermilldelay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
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
// later, the others are still published. The error then says how many are stored and matches
// [delayer.ErrUnknown], so that [delayer.SafeToRetry] is false: publishing all again would deliver
// those twice. To know a message's result by itself, publish one at a time.
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
	failed := slices.DeleteFunc(slices.Clone(results), func(err error) bool { return err == nil })
	switch {
	case len(failed) == 1 && len(results) == 1:
		return failed[0]
	case len(failed) == 0 || len(failed) == len(results):
		return errors.Join(failed...)
	}
	return fmt.Errorf("%w: %d of %d messages are stored: %w",
		delayer.ErrUnknown, len(results)-len(failed), len(results), errors.Join(failed...))
}

// same reports whether two contexts are the same. Comparing some types with == would panic.
func same(a, b context.Context) bool { return reflect.ValueOf(a).Comparable() && a == b }

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

// delayOf returns how long a message is to wait from now.
//
// Package delay writes both a duration and a time. The duration is exact, but counts from when it
// was written. The time has no fraction of a second, and may be up to a second early. So delayOf
// takes the shorter of two waits that are not early: the duration from now, and until a second
// after the time. A message that was stored before it is published is thus not delayed a second
// time.
func delayOf(metadata message.Metadata, now time.Time) (time.Duration, error) {
	duration, at := metadata.Get(delay.DelayedForKey), metadata.Get(delay.DelayedUntilKey)
	if duration == "" && at == "" {
		return 0, nil
	}
	wait := time.Duration(math.MaxInt64)
	if duration != "" {
		var err error
		if wait, err = time.ParseDuration(duration); err != nil {
			return 0, fmt.Errorf("metadata %s is %.80q, want a duration such as 90s", delay.DelayedForKey, duration)
		}
	}
	if at != "" {
		due, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return 0, fmt.Errorf("metadata %s is %.80q, want a time such as 2030-01-31T12:00:00Z", delay.DelayedUntilKey, at)
		}
		if duration != "" && due.Nanosecond() == 0 {
			due = due.Add(time.Second)
		}
		wait = min(wait, due.Sub(now))
	}
	if wait == math.MaxInt64 { // Sub cuts off what is longer
		return 0, fmt.Errorf("metadata %s is %.80q, which is more than 292 years away", delay.DelayedUntilKey, at)
	}
	return max(wait, 0), nil
}

// uuidHeader is watermill-amqp's DefaultMessageUUIDHeaderKey.
const uuidHeader = "_watermill_message_uuid"

// Marshal converts a message as watermill-amqp's DefaultMarshaler does: the metadata and the UUID
// become headers, and the message is persistent. The UUID also becomes the MessageId, by which
// package once recognises a message that is published again. The error is always nil.
func Marshal(msg *message.Message) (amqp091.Publishing, error) {
	headers := make(amqp091.Table, len(msg.Metadata)+1)
	for key, value := range msg.Metadata {
		headers[key] = value
	}
	headers[uuidHeader] = msg.UUID
	return amqp091.Publishing{
		MessageId: msg.UUID, DeliveryMode: amqp091.Persistent, Headers: headers, Body: msg.Payload,
	}, nil
}

// StringHeaders returns a delivery without the headers that are not strings. Use it as
// PreprocessDelivery of watermill-amqp's DefaultMarshaler, which refuses them.
func StringHeaders(d amqp091.Delivery) amqp091.Delivery {
	d.Headers = maps.Clone(d.Headers)
	maps.DeleteFunc(d.Headers, func(_ string, value any) bool {
		_, is := value.(string)
		return !is
	})
	return d
}
