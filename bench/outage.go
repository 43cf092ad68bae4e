package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
)

const (
	// bringUp bounds the start of a broker that was taken down. It is started after an interrupt
	// too: what was declared can be removed only from a broker that runs.
	bringUp = 2 * time.Minute
	// serveWithin bounds the wait for a broker that takes connections to store a message.
	serveWithin = time.Minute
	// servePause is between two attempts to publish to a broker that is starting.
	servePause = 20 * time.Millisecond
	// attemptWithin bounds one of them.
	attemptWithin = 10 * time.Second
)

// An outage is a broker taken down and brought back. down is the time until it took connections,
// and serves until a client that opened the subject anew had a message confirmed, 0 if none had;
// both from the beginning of taking it down.
type outage struct{ down, serves time.Duration }

// secondAttempt is how long a quorum queue waits before it tries an unroutable message again, three
// minutes (dead_letter_worker_publisher_confirm_timeout), and some more. RabbitMQ up to 4.2 starts
// its queues before it has read its bindings: messages that expire in that window are unroutable.
const secondAttempt = 200 * time.Second

// finishOutage is finish after the broker was taken down. What the subject promises to survive is
// waited for until the broker has tried again. What is kept as unroutable is not lost.
func (t *trial) finishOutage(ctx context.Context, c common, o outage, survives bool, published error) (result, error) {
	if survives {
		c.patience = max(c.patience, secondAttempt)
	}
	run, err := t.finish(ctx, c, nil, published)
	run.Outage, run.LossDeclared = true, !survives
	run.DownMS, run.ServesMS = milliseconds(o.down), milliseconds(o.serves)
	run.unpriced() // a boot is not the cost of a message
	if run.Lost > 0 && t.delayer.Limits().KeepsUnroutable {
		run.Kept = min(run.Lost, t.kept(ctx))
		run.Lost -= run.Kept
	}
	return run, err
}

// kept is how many messages are in the queue for unroutable messages; 0 if it cannot be asked.
func (t *trial) kept(ctx context.Context) int {
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	conn, err := amqpclient.Dial(ctx, t.env.URL, t.env.Prefix)
	if err != nil {
		return 0
	}
	defer conn.Close() //nolint:errcheck // it was only for one question
	ch, err := conn.Channel()
	if err != nil {
		return 0
	}
	q, err := ch.QueueDeclarePassive(t.env.Prefix+".unroutable", durable, autoDelete, exclusive, noWait, nil)
	if err != nil {
		return 0
	}
	return q.Messages
}

// takeDown takes the broker down, brings it back, and waits until it stores messages again.
func (t *trial) takeDown(ctx context.Context, down func(context.Context) error) (outage, error) {
	began := time.Now()
	var o outage
	stopped := down(ctx)
	upCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bringUp)
	defer cancel()
	if err := errors.Join(stopped, t.meter.target.Start(upCtx)); err != nil {
		return o, fmt.Errorf("take the broker down and up: %w", err)
	}
	o.down = time.Since(began)
	if err := t.reopen(ctx); err != nil {
		return o, err
	}
	o.serves = time.Since(began)
	return o, nil
}

// reopen opens the subject anew, as a client would that starts now, until a message is confirmed.
// The Delayer from before stays open: what it does in this process must go on.
func (t *trial) reopen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serveWithin)
	defer cancel()
	for {
		err := t.tryReopen(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx, servePause) != nil {
			return fmt.Errorf("the broker does not store messages %v after it was up: %w", serveWithin, err)
		}
	}
}

func (t *trial) tryReopen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptWithin)
	defer cancel()
	env := t.env
	env.Existing = true
	d, err := t.subject.Open(ctx, env)
	if err != nil {
		return err
	}
	// Neither counted nor awaited: a copy from a failed attempt may come as well.
	err = d.Publish(ctx, "", t.destination.queue, warmUpDelay, amqp091.Publishing{
		MessageId: "up", DeliveryMode: amqp091.Persistent, Body: t.body,
	})
	if err != nil {
		return errors.Join(err, d.Close())
	}
	t.former = append(t.former, t.delayer)
	t.delayer = d
	return nil
}
