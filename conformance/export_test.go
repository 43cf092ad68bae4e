package conformance

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Tester and RunOn let the suite's own tests put a recorder in the place of *testing.T.
type Tester = tester

var RunOn = run

// Receive is a receiver's awaitOr for messages that arrive at the given times from now.
func Receive(arrivals map[string]time.Duration, ids []string, wait, patience time.Duration) (missing []string) {
	in := newReceiver("test")
	for id, after := range arrivals {
		time.AfterFunc(after, func() { in.add(Arrival{Delivery: amqp091.Delivery{MessageId: id}}) })
	}
	return in.awaitOr(nil, ids, time.Now().Add(wait), patience)
}
