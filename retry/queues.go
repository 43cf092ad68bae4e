package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

const waitForAnswer = false // for the bare boolean of amqp091-go

// prepare checks that the queue exists, and declares the queue for parked messages.
func (r *Retrier) prepare(ctx context.Context) error {
	_, err := r.control.Queue(ctx, r.cfg.Queue)
	if broker.Code(err) == amqp091.NotFound {
		return &delayer.Error{
			Op: "consume", Object: fmt.Sprintf("queue %q", r.cfg.Queue), Kind: delayer.ErrUnroutable,
			Cause: errors.New("there is no such queue"), Hint: "declare it first",
		}
	}
	if err != nil {
		return broker.Explain("consume", "", fmt.Sprintf("queue %q", r.cfg.Queue), err)
	}
	if err := r.declareParked(ctx); err != nil {
		return err
	}
	if err := r.refuseStream(ctx, "queue", r.cfg.Queue); err != nil {
		return err
	}
	return r.refuseStream(ctx, "parked", r.cfg.Parked)
}

// refuseStream returns an error if a queue is a stream. The argument is one that any other queue
// refuses, and a stream refuses a consumer without a prefetch: so nothing is consumed.
func (r *Retrier) refuseStream(ctx context.Context, key, queue string) error {
	const anyTag, autoAck, exclusive, noLocal = "", false, false, false
	const argument = "x-stream-offset"
	err := r.control.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.Consume(queue, anyTag, autoAck, exclusive, noLocal, waitForAnswer, amqp091.Table{argument: "next"})
		if err == nil {
			_ = ch.Close() // a broker that knows better: it takes back what it has sent
		}
		return err
	})
	var answer *amqp091.Error
	switch {
	case err == nil:
		return nil
	case broker.Code(err) != amqp091.PreconditionFailed || !errors.As(err, &answer):
		return broker.Explain("consume", "", fmt.Sprintf("queue %q", queue), err)
	case strings.Contains(answer.Reason, argument):
		return nil
	}
	return &delayer.Error{
		Op: "open retry", Object: key, Kind: delayer.ErrConfig,
		Cause: fmt.Errorf("%q is a stream, which keeps what is acknowledged and takes nothing back", queue), Hint: "use a quorum queue",
	}
}

// declareParked declares the queue for parked messages, unless it exists with whatever arguments.
func (r *Retrier) declareParked(ctx context.Context) error {
	_, err := r.control.Queue(ctx, r.cfg.Parked)
	if broker.Code(err) == amqp091.NotFound {
		parked := topology.Queue{Name: r.cfg.Parked, Args: amqp091.Table{
			"x-queue-type":     "quorum",
			"x-delivery-limit": objects.NeverGivenUp,
			"x-overflow":       "reject-publish", // if a policy sets a max-length, keep the oldest messages
		}}
		err = objects.Of(r.control, "").Apply(ctx, topology.Plan{Queues: []topology.Queue{parked}})
	}
	return broker.Explain("declare", "", fmt.Sprintf("queue %q", r.cfg.Parked), err)
}
