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

	// Serve takes and acknowledges the messages of one channel. It returns once messages is closed
	// or the ctx of Consume has ended. The broker redelivers what is not acknowledged by then.
	// alive ends when the channel is lost; nothing can be acknowledged after that.
	Serve func(alive context.Context, messages <-chan amqp091.Delivery)

	// Failed is called before the next attempt with the reason why a channel was lost or could not
	// be opened. The queue may be gone.
	Failed func(ctx context.Context, err error)
}

// Consume takes messages from a queue until ctx ends. It opens a new channel whenever one is lost.
// Publish on another connection: the broker stops reading from a connection that publishes too
// much, and would not see our acknowledgements.
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

// consume serves one channel and returns why it ended.
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
		<-watched // it knows the cause
	}
	close(stop)
	<-watched
	return context.Cause(alive)
}

// errConsumerEnded: the broker has sent basic.cancel, which has no reason.
var errConsumerEnded = errors.New("the broker ended the consumer: was the queue deleted?")
