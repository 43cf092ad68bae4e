package plugin

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/delivery"
)

// Remaining implements [engine.Reckoner].
func (s *own) Remaining(headers amqp091.Table) (time.Duration, bool) {
	return delivery.DeliveredByPlugin(headers)
}
