package undelivered

import (
	"context"
	"fmt"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// DefaultLimit is the delivery limit of a quorum queue of RabbitMQ 4 that has neither an argument
// x-delivery-limit nor a policy.
const DefaultLimit = 20

// spare is how many deliveries a look leaves to a message.
const spare = 5

// spared refuses to read on where that would use up a message. From RabbitMQ 4.0 to 4.2 whatever a
// consumer gives back counts towards the delivery limit of a quorum queue, and a message beyond
// that is deleted. Queues that Delayer declares have a limit that is never reached
// (objects.NeverGivenUp), but a queue of parked messages may be the user's own. Measured on 4.0.5:
// of 30 looks at a message, by nack, reject, get or a closed channel, the 22nd found nothing.
func (r *Reader) spared(ctx context.Context, headers amqp091.Table) error {
	b := r.client
	count, _ := headers["x-delivery-count"].(int64)
	if !b.conn.From(4) || !b.Parked() || count < DefaultLimit-spare {
		return nil
	}
	limit, hint := int64(DefaultLimit), "is it higher? give the address of the management API, which knows: key management"
	if b.Limit != nil {
		if r.limit == nil { // once for all messages
			known, err := b.Limit(ctx)
			if err != nil {
				return err
			}
			r.limit = &known
		}
		limit, hint = *r.limit, ""
	}
	if limit < 0 || count < limit-spare {
		return nil
	}
	hints := []string{`set a policy for it with "delivery-limit": 1000000, or declare it as package retry does`}
	if hint != "" {
		hints = append(hints, hint)
	}
	return &delayer.Error{
		Op: "read", Object: fmt.Sprintf("queue %q", b.Queue()), Kind: delayer.ErrConflict,
		Cause: fmt.Errorf("a message in it has been given back %d times, and RabbitMQ deletes it at the queue's delivery limit of %d", count, limit),
		Hint:  strings.Join(hints, "; "),
	}
}
