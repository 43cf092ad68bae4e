package topology

import (
	"context"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/broker"
)

// Waiting returns how many messages the queues of p hold, by queue, without those that are empty. It
// takes none. A message may move from a queue that was not looked at yet to one that was, so it looks
// twice, the second time in the opposite order.
func Waiting(ctx context.Context, control *broker.Control, backend string, p Plan) (map[string]int, error) {
	waiting := map[string]int{}
	again := slices.Clone(p.Queues)
	slices.Reverse(again)
	for _, q := range append(again, p.Queues...) {
		n := 0
		err := control.Do(ctx, func(ch *amqp091.Channel) error {
			found, err := ch.QueueDeclarePassive(q.Name, durable, !autoDelete, !exclusive, waitForAnswer, nil)
			n = found.Messages
			return err
		})
		if err != nil && broker.Code(err) != amqp091.NotFound {
			return nil, broker.Explain("look at", backend, describe("queue", q.Name), err)
		}
		if n > 0 {
			waiting[q.Name] = n
		}
	}
	return waiting, nil
}
