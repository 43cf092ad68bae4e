package topology

import (
	"context"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/broker"
)

// Holds asks the leader of a queue for a message, and gives it back. It is for whoever deletes what
// is empty, and needs the permission to read.
//
// A passive declaration is not enough: RabbitMQ answers 0 messages and 0 consumers for a quorum queue
// that takes longer than 250 ms, as one does that is read from disk after a start
// (rabbit_quorum_queue:stat/2 in 3.10 to 4.0).
//
// It is not for queues that are watched: each message given back counts towards a delivery limit.
func Holds(ch *amqp091.Channel, queue string) (bool, error) {
	const autoAck, multiple, requeue = false, false, true
	m, found, err := ch.Get(queue, autoAck)
	if err != nil || !found {
		return false, err
	}
	return true, m.Nack(multiple, requeue)
}

// Holding returns the names of those queues of p that hold a message; see [Holds]. Of a queue that
// does not exist, or that only one connection may read, it says nothing, nor of a [Record]: RabbitMQ
// closes the connection of whoever gets from a stream. When it returns, each other queue has a leader
// that answers.
func Holding(ctx context.Context, control *broker.Control, backend string, p Plan) ([]string, error) {
	var names []string
	for _, q := range p.Queues {
		if q.Role == Record {
			continue
		}
		var holds bool
		err := control.Do(ctx, func(ch *amqp091.Channel) (err error) {
			holds, err = Holds(ch, q.Name)
			return err
		})
		switch code := broker.Code(err); {
		case code == amqp091.NotFound, code == amqp091.ResourceLocked:
		case err != nil:
			return nil, broker.Explain("look at", backend, describe("queue", q.Name), err)
		case holds:
			names = append(names, q.Name)
		}
	}
	return names, nil
}
