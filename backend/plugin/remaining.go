package plugin

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/misrouted"
)

// Remaining is what remains of the delay of a misrouted message.
func (s *own) Remaining(headers amqp091.Table) (time.Duration, bool) {
	return misrouted.DeliveredByPlugin(headers)
}
