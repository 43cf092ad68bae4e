package broker

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Stream is read from an offset on. Reading takes nothing away.
type Stream struct {
	Queue  string
	Offset string            // "first", or "last": the last chunk, which holds what was written together last
	Again  func()            // is called when reading begins at the offset
	Take   func(body []byte) // takes one message
	Failed func(err error)   // is called with the reason why a channel was lost or could not be opened
}

const (
	streamPrefetch = 2000
	// acknowledgeAt messages are acknowledged together. Fewer are after acknowledgeEvery: the
	// broker closes a channel that leaves a message unacknowledged for its consumer_timeout.
	acknowledgeAt    = streamPrefetch / 4
	acknowledgeEvery = 500 * time.Millisecond
)

// Read takes all messages until ctx ends. It begins again after each lost channel.
func (s Stream) Read(ctx context.Context, conn *Conn) {
	Consume(ctx, conn, Consuming{
		Queue: s.Queue, Prefetch: streamPrefetch, Args: amqp091.Table{"x-stream-offset": s.Offset},
		Serve:  func(_ context.Context, messages <-chan amqp091.Delivery) { s.serve(ctx, messages) },
		Failed: func(_ context.Context, err error) { s.Failed(err) },
	})
}

// serve takes the messages of one channel.
func (s Stream) serve(ctx context.Context, messages <-chan amqp091.Delivery) {
	s.Again()
	var last amqp091.Delivery
	taken := 0
	acknowledge := func() {
		if taken > 0 {
			_ = last.Ack(true) // fails only if the channel is lost
			taken = 0
		}
	}
	beat := time.NewTicker(acknowledgeEvery)
	defer beat.Stop()
	for {
		select {
		case d, ok := <-messages:
			if !ok {
				return
			}
			s.Take(d.Body)
			last = d
			if taken++; taken == acknowledgeAt {
				acknowledge()
			}
		case <-beat.C:
			acknowledge()
		case <-ctx.Done():
			return
		}
	}
}
