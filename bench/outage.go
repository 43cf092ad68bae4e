package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/amqpclient"
)

const (
	// bringUp bounds the start of a broker that was taken down; also after an interrupt, since what
	// was declared can only be removed from a broker that runs.
	bringUp = 2 * time.Minute
	// serveWithin bounds the wait for a broker that takes connections to store a message.
	serveWithin = time.Minute
	// servePause is between two attempts to publish to a broker that is starting.
	servePause = 20 * time.Millisecond
	// attemptWithin bounds one of them.
	attemptWithin = 10 * time.Second
)

// An outage is a broker taken down and brought back: how long, from the beginning of taking it
// down, until it took connections, and until a client that opens the subject anew had a message
// confirmed.
type outage struct{ down, serves time.Duration }

// secondAttempt is how long a quorum queue waits before it tries an unroutable message again, three
// minutes (dead_letter_worker_publisher_confirm_timeout), and some more. RabbitMQ up to 4.2 starts
// its queues before it has read its bindings: messages that expire in that window are unroutable.
const secondAttempt = 200 * time.Second

// finishOutage is finish after the broker was taken down. What the subject promises to survive is
// waited for until the broker has tried again, and what is kept as unroutable is not lost.
func (s *Trial) finishOutage(ctx context.Context, l Load, o outage, survives bool, published error) (Run, error) {
	patience := l.Patience
	if survives {
		patience = max(patience, secondAttempt)
	}
	run, err := s.finish(ctx, patience, nil, published)
	o.note(&run)
	run.LossDeclared = !survives
	if run.Lost > 0 && s.delayer.Limits().KeepsUnroutable {
		run.Kept = min(run.Lost, s.kept(ctx))
		run.Lost -= run.Kept
	}
	return run, err
}

// kept is how many messages are in the queue for unroutable messages, as far as that can be known.
func (s *Trial) kept(ctx context.Context) int {
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	conn, err := amqpclient.Dial(ctx, s.env.URL, s.env.Prefix)
	if err != nil {
		return 0
	}
	defer conn.Close() //nolint:errcheck // it was only for one question
	ch, err := conn.Channel()
	if err != nil {
		return 0
	}
	q, err := ch.QueueDeclarePassive(s.env.Prefix+".unroutable", durable, autoDelete, exclusive, noWait, nil)
	if err != nil {
		return 0
	}
	return q.Messages
}

func (o outage) note(run *Run) {
	run.Outage = true
	run.DownMS, run.ServesMS = milliseconds(o.down), milliseconds(o.serves)
	// The processor time of a boot is not the cost of a message.
	run.BrokerCPU = 0
}

// takeDown takes the broker down, brings it back, and waits until it stores messages again.
func (s *Trial) takeDown(ctx context.Context, down func(context.Context, Stopper) error) (outage, error) {
	broker := stopper(s.meter.broker)
	if broker == nil {
		return outage{}, errors.New("the broker is not ours to take down")
	}
	began := time.Now()
	var o outage
	stopped := down(ctx, broker)
	upCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bringUp)
	defer cancel()
	if err := errors.Join(stopped, broker.Run(upCtx)); err != nil {
		return o, fmt.Errorf("take the broker down and up: %w", err)
	}
	o.down = time.Since(began)
	err := s.reopen(ctx)
	o.serves = time.Since(began)
	s.recorder.due(s.recorder.now()) // what was due meanwhile gets as much patience as anything else
	return o, err
}

// reopen opens the subject anew, as a client would that starts now, until a message is confirmed.
// The Delayer from before stays open: what it does in this process must go on.
func (s *Trial) reopen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serveWithin)
	defer cancel()
	for {
		err := s.tryReopen(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx, servePause) != nil {
			return fmt.Errorf("the broker does not store messages %v after it was up: %w", serveWithin, err)
		}
	}
}

func (s *Trial) tryReopen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptWithin)
	defer cancel()
	env := s.env
	env.Existing = true
	d, err := s.Subject.Open(ctx, env)
	if err != nil {
		return err
	}
	// Not one of those that are counted, and not awaited: its copy from a failed attempt may come
	// as well.
	err = d.Publish(ctx, "", s.destination.queue, warmUpDelay, amqp091.Publishing{
		MessageId: "up", DeliveryMode: amqp091.Persistent, Body: s.body,
	})
	if err != nil {
		return errors.Join(err, d.Close())
	}
	s.former = append(s.former, s.delayer)
	s.delayer = d
	return nil
}
