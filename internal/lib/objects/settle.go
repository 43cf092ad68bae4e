package objects

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/topology"
)

// Settle is for whoever has just declared quorum queues, and has not called [Live.Apply], which
// does the same. It declares one more, and deletes that again.
//
// RabbitMQ (seen with 3.10 to 4.3) writes down which quorum queues a node has when the next one is
// declared, or up to a second later (names.dets of Ra). A node that is killed before starts the
// queue that was declared last without its messages, although they were confirmed, and up to 4.2
// without a leader: it confirms nothing any more.
//
// The other queue's name begins with that of queue, so the permissions for queue are mostly enough.
// The broker deletes it after a minute if the caller cannot. A broker that refuses it is no error:
// the queues are then safe a second later. An error is a lost connection.
func Settle(ctx context.Context, conn *broker.Conn, queue string) error {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }() // fails if the broker has refused the queue
	return settle(ch, queue)
}

// settle does it on a channel, which is closed if the broker refuses.
func settle(ch *amqp091.Channel, queue string) error {
	const ifUnused, ifEmpty = false, false
	name := settleName(queue, rand.Text())
	_, err := ch.QueueDeclare(name, durable, !autoDelete, !exclusive, waitForAnswer, amqp091.Table{
		"x-queue-type": string(delayer.Quorum), "x-expires": time.Minute.Milliseconds(),
	})
	if err == nil {
		_, err = ch.QueueDelete(name, ifUnused, ifEmpty, waitForAnswer)
	}
	var answer *amqp091.Error
	if errors.As(err, &answer) && answer.Server && answer.Code != amqp091.ConnectionForced {
		return nil
	}
	return err
}

func settleName(queue, random string) string {
	const longest = 255 // bytes
	suffix := ".settle." + random
	return strings.ToValidUTF8(queue[:min(len(queue), longest-len(suffix))], "") + suffix
}

// quorum returns the quorum queues of p.
func quorum(p topology.Plan) []topology.Queue {
	return slices.DeleteFunc(slices.Clone(p.Queues), func(q topology.Queue) bool {
		return q.Args["x-queue-type"] != string(delayer.Quorum)
	})
}
