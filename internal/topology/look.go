package topology

import (
	"context"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/broker"
)

// A State is what a broker says of a queue over AMQP.
type State struct {
	Messages  int // that are ready: those that a consumer holds are not counted
	Consumers int
}

// Look returns the state of the queues of p, by name, without those that do not exist. It takes no
// message and declares nothing. A message may move from a queue that was not looked at yet to one
// that was, so Look looks twice, the second time in the opposite order, and returns the larger
// number.
func Look(ctx context.Context, control *broker.Control, backend string, p Plan) (map[string]State, error) {
	states := map[string]State{}
	again := slices.Clone(p.Queues)
	slices.Reverse(again)
	for _, q := range append(again, p.Queues...) {
		var found amqp091.Queue
		err := control.Do(ctx, func(ch *amqp091.Channel) (err error) {
			found, err = ch.QueueDeclarePassive(q.Name, durable, !autoDelete, !exclusive, waitForAnswer, nil)
			return err
		})
		switch {
		case broker.Code(err) == amqp091.NotFound:
			delete(states, q.Name)
		case err != nil:
			return nil, broker.Explain("look at", backend, describe("queue", q.Name), err)
		default:
			states[q.Name] = State{max(found.Messages, states[q.Name].Messages), found.Consumers}
		}
	}
	return states, nil
}
