package objects

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/topology"
)

// Feature is the feature flag without which a quorum queue dead-letters at most once, whatever its
// arguments say: RabbitMQ tells it to its log alone (rabbit_quorum_queue:dlh/5). A cluster that came
// from 3.8 or 3.9 may lack it on 3.10 and 3.11. Nodes from 3.12 on do not start without it.
const Feature = "feature flag stream_queue"

// Features looks whether the broker has the feature flag that p needs. The error is ErrNotFound if
// it has not. With any other error that is not known.
//
// It declares a stream that no broker accepts: without the flag the answer is 541 and the connection
// ends, and with it 406 because a stream cannot be deleted automatically. Nothing is left behind.
func (l Live) Features(ctx context.Context, p topology.Plan) error {
	at := slices.IndexFunc(p.Queues, func(q topology.Queue) bool { return q.Args["x-dead-letter-strategy"] == "at-least-once" })
	if at < 0 || l.control.Conn().From(3, 12) {
		return nil
	}
	name := settleName(p.Queues[at].Name, rand.Text())
	err := l.control.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(name, durable, autoDelete, !exclusive, waitForAnswer, amqp091.Table{"x-queue-type": "stream"})
		var answer *amqp091.Error
		switch {
		case !errors.As(err, &answer):
		case strings.Contains(answer.Reason, "invalid property 'auto-delete'"):
			return nil
		case strings.Contains(answer.Reason, "Cannot declare a queue"):
			return Lacking()
		}
		return err
	})
	return broker.Explain("look at", l.backend, Feature, err)
}

// Known returns an error of Features that says what is lacking, and logs one that says that it is not
// known.
func Known(log *slog.Logger, err error) error {
	if err != nil && !errors.Is(err, delayer.ErrNotFound) {
		log.Warn("it is not known whether quorum queues lose messages: see rabbitmqctl list_feature_flags", "why", err)
		return nil
	}
	return err
}

// Lacking is the error of a broker without the feature flag.
func Lacking() *delayer.Error {
	return &delayer.Error{
		Op: "look at", Object: Feature, Kind: delayer.ErrNotFound,
		Cause: errors.New("it is disabled, so a quorum queue loses what the next queue refuses, and what moves in a crash"),
		Hint:  "rabbitmqctl enable_feature_flag all; queues that exist already then need what docs/operating.md says",
	}
}
