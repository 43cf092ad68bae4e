package topology

import (
	"context"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/broker"
)

// Missing names the exchanges and queues of p that do not exist. It declares nothing and needs no
// permission. AMQP does not show arguments and bindings.
func Missing(ctx context.Context, control *broker.Control, backend string, p Plan) ([]string, error) {
	var missing []string
	look := func(object string, passively func(*amqp091.Channel) error) error {
		err := control.Do(ctx, passively)
		if broker.Code(err) == amqp091.NotFound {
			missing = append(missing, object)
			return nil
		}
		return broker.Explain("look at", backend, object, err)
	}
	for _, x := range p.AllExchanges() {
		err := look(describe("exchange", x.Name), func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclarePassive(x.Name, x.Kind, durable, !autoDelete, !internal, waitForAnswer, nil)
		})
		if err != nil {
			return missing, err
		}
	}
	for _, q := range p.Queues {
		err := look(describe("queue", q.Name), func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclarePassive(q.Name, durable, !autoDelete, !exclusive, waitForAnswer, nil)
			return err
		})
		if err != nil {
			return missing, err
		}
	}
	return missing, nil
}
