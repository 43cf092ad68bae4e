package broker

import (
	"context"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Consuming says what to consume, and what to do with it.
type Consuming struct {
	Queue    string
	Prefetch int // how many messages may be unacknowledged at a time

	// Serve takes the messages of one life of the channel, and acknowledges them. It returns once
	// messages is closed or the ctx of Consume has ended; what is not acknowledged by then, the
	// broker delivers again. alive ends when the channel is lost: nothing can be acknowledged any
	// more.
	Serve func(alive context.Context, messages <-chan amqp091.Delivery)

	// Failed is told why a channel was lost or could not be had, before the next attempt: the queue
	// may be gone.
	Failed func(ctx context.Context, err error)
}

// Consume takes messages from a queue until ctx ends, on a channel that comes back as often as it
// is lost. Publish on another connection: the broker stops reading from one that publishes too
// much, and with it our acknowledgements.
func Consume(ctx context.Context, conn *Conn, c Consuming) {
	pause := firstPause
	for {
		began := time.Now()
		err := consume(ctx, conn, c)
		if ctx.Err() != nil || conn.ctx.Err() != nil {
			return
		}
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		c.Failed(ctx, plain(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(jitter(pause)):
		}
		pause = min(2*pause, longestPause/2)
	}
}

// consume is one life of a channel. It returns why it ended.
func consume(ctx context.Context, conn *Conn, c Consuming) error {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }() // gives back what is not acknowledged
	const wholeChannel, noSize = false, 0
	if err := ch.Qos(c.Prefetch, noSize, wholeChannel); err != nil {
		return err
	}
	const anyTag, autoAck, exclusive, noLocal = "", false, false, false
	messages, err := ch.Consume(c.Queue, anyTag, autoAck, exclusive, noLocal, waitForAnswer, nil)
	if err != nil {
		return err
	}
	alive, dead := context.WithCancelCause(context.Background())
	closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case err := <-closed:
			if err != nil {
				dead(err)
			}
		case <-stop:
		}
		dead(errConsumerEnded)
	}()
	c.Serve(alive, messages)
	if ch.IsClosed() {
		<-watched // it knows why
	}
	close(stop)
	<-watched
	return context.Cause(alive)
}

// errConsumerEnded: the broker has sent basic.cancel, which has no reason.
var errConsumerEnded = errors.New("the broker ended the consumer: was the queue deleted?")
