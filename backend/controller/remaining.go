package controller

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/misrouted"
)

// Remaining implements [engine.Reckoner]: what remains of the delay of a misrouted message. One that has a stamp was on its way between waiting
// queues; one that has none was published when it was due.
func (s *strategy) Remaining(headers amqp091.Table) (time.Duration, bool) {
	if _, stamped := headers[message.Journey]; !stamped {
		return misrouted.WhenDue(headers)
	}
	at, err := readStamp(headers)
	if err != nil {
		return 0, false
	}
	return at.remaining(time.Now(), expired(headers)), true
}
