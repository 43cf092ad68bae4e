package controller

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// Remaining implements [engine.Reckoner]. A misrouted message with a stamp was between two waiting
// queues. One without a stamp was published when it was due.
func (s *strategy) Remaining(headers amqp091.Table) (time.Duration, bool) {
	if _, stamped := headers[message.Stamp]; !stamped {
		return delivery.WhenDue(headers)
	}
	at, err := readStamp(headers)
	if err != nil {
		return 0, false
	}
	return at.remaining(time.Now(), expired(headers)), true
}
