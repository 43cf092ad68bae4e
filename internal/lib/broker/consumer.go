package broker

import (
	"context"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

// Consuming says what to consume, and what to do with it.
type Consuming struct {
	Queue    string
	Prefetch int // how many messages may be unacknowledged at a time
	Args     amqp091.Table

	// Serve takes and acknowledges the messages of one channel. It returns once messages is closed
	// or the ctx of Consume has ended. The broker redelivers what is not acknowledged by then, and
	// nothing else unless the channel was lost.
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
	pause := pace.Backoff{First: firstPause, Longest: longestPause / 2}
	for {
		began := time.Now()
		err := consume(ctx, conn, c)
		if ctx.Err() != nil || conn.ctx.Err() != nil {
			return
		}
		if time.Since(began) > longestPause {
			pause.Reset()
		}
		c.Failed(ctx, plain(err))
		if pace.Sleep(ctx, pause.Failed()) != nil {
			return
		}
	}
}

func consume(ctx context.Context, conn *Conn, c Consuming) error {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return err
	}
	defer end(ch, c.Queue)
	messages, err := Begin(ch, c.Queue, consumerTag, c.Prefetch, c.Args)
	if err != nil {
		return err
	}
	alive, dead := context.WithCancelCause(context.Background())
	closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
	go func() {
		if err := <-closed; err != nil {
			dead(err)
		}
		dead(ErrConsumerEnded)
	}()
	c.Serve(alive, messages)
	if !ch.IsClosed() {
		return ErrConsumerEnded
	}
	<-alive.Done()
	return context.Cause(alive)
}

// consumerTag is that of all consumers: a channel has one.
const consumerTag = "delayer"

// Begin consumes a queue on a channel. Of its messages at most prefetch are unacknowledged at a time.
// An empty tag is one that no other consumer of the channel has.
func Begin(ch *amqp091.Channel, queue, tag string, prefetch int, args amqp091.Table) (<-chan amqp091.Delivery, error) {
	const wholeChannel, noSize = false, 0
	if err := ch.Qos(prefetch, noSize, wholeChannel); err != nil {
		return nil, err
	}
	const autoAck, exclusive, noLocal = false, false, false
	return ch.Consume(queue, tag, autoAck, exclusive, noLocal, waitForAnswer, args)
}

// EndActive ends the consumer of a queue with a single active one. Nothing is cancelled before
// the channel closes: the next consumer would be active before it gets what is given back. What is
// stored behind the acknowledgements is another consumer of the channel, which waits, and ends with
// it. Two are needed. The queue may get another leader meanwhile, which has not got all of them. To
// that one the channel sends them again, but perhaps not before the first consumer is stored. An
// alarm, or a queue without a leader, can make it wait for long. It reports whether the queue has
// answered: otherwise the channel is lost.
func EndActive(ch *amqp091.Channel, queue string) (answered bool) {
	for range 2 {
		const autoAck, exclusive, noLocal = false, false, false
		if _, err := ch.Consume(queue, "", autoAck, exclusive, noLocal, waitForAnswer, nil); err != nil {
			return false
		}
	}
	return ch.Close() == nil
}

// endTimeout is how long the end of a consumer may take.
const endTimeout = 5 * time.Second

// end closes the channel of a consumer, which gives back what is not acknowledged. Where a quorum
// queue has no majority it closes when the broker gives up, or with its connection.
func end(ch *amqp091.Channel, queue string) {
	ended := make(chan struct{})
	go func() {
		_ = Settle(ch, queue, consumerTag) // fails if the channel is lost
		_ = ch.Close()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(endTimeout):
	}
}

// Settle cancels a consumer and returns once the broker will not forget what was acknowledged. A
// channel of a quorum queue keeps further acknowledgements back while 32 of them are not stored,
// and forgets them when it is closed (rabbit_fifo_client, settle). So there are two round trips:
// cancelling the consumer is stored behind all that was sent before, and the next question comes
// behind the news of that, upon which the channel sends what it has kept back.
// If the queue gets another leader meanwhile some may be forgotten, and come again.
func Settle(ch *amqp091.Channel, queue, tag string) error {
	if err := ch.Cancel(tag, waitForAnswer); err != nil {
		return err
	}
	const durable, autoDelete, exclusive = true, false, false
	_, err := ch.QueueDeclarePassive(queue, durable, autoDelete, exclusive, waitForAnswer, nil)
	return err
}

// ErrConsumerEnded means that the broker has sent basic.cancel, which has no reason.
var ErrConsumerEnded = errors.New("the broker ended the consumer: was the queue deleted?")
