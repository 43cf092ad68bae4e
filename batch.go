package delayer

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Message is one message of [PublishBatch]: the arguments of a Publish.
type Message struct {
	Exchange, Key string
	Delay         time.Duration
	Publishing    amqp091.Publishing
}

// A BatchPublisher is a [Delayer] that publishes many messages without waiting for each confirm
// before it sends the next. All backends of this module implement it.
type BatchPublisher interface {
	// PublishBatch is [PublishBatch] through this Delayer.
	PublishBatch(ctx context.Context, messages []Message) []error
}

// PublishBatch publishes messages through d, and returns one result for each, at its index. Each is
// what Publish would return: nil only after the broker's confirm. A message that fails does not
// stop those behind it. If ctx ends, the results say which messages may be stored ([ErrUnknown])
// and which are not ([ErrNotSent]).
//
// From one goroutine this is many times faster than Publish: up to some hundred messages are
// unconfirmed at a time, however many there are. The delay of a message begins when it is sent. The
// order is that of messages as if one goroutine had called Publish for each (see
// [Limits].Ordered). One connection is used, also where there are several.
//
// messages is not modified, and not read any more once PublishBatch has returned. A d that is no
// [BatchPublisher] is called once for each message.
func PublishBatch(ctx context.Context, d Delayer, messages []Message) []error {
	if b, ok := d.(BatchPublisher); ok {
		return b.PublishBatch(ctx, messages)
	}
	results := make([]error, len(messages))
	for i, m := range messages {
		results[i] = d.Publish(ctx, m.Exchange, m.Key, m.Delay, m.Publishing)
	}
	return results
}
