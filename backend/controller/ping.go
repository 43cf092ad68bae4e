package controller

import (
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

const (
	// pingEvery is how long a consumer must be idle before it sends a ping through the intake.
	pingEvery = 3 * time.Second
	// pingTimeout is how long it waits after that for any message. Where several controllers
	// consume, each gets only its share of the messages and pings of all.
	pingTimeout = 12 * time.Second
	// pingHeader marks a ping. What a Delayer has published may have it, but with a stamp.
	pingHeader = "x-delayer-ping"
)

// liveness detects a consumer that gets no more messages. If the intake is deleted and declared
// again at once, the broker moves the consumer to the new queue. A channel of a quorum queue then
// drops every delivery, unacknowledged, until it is closed (rabbit_channel,
// queue_down_consumer_action; seen on RabbitMQ 3.10.8 and 4.3.6). The client is not told.
type liveness struct {
	active time.Time    // when a message last came, or was held
	pinged atomic.Int64 // when the first ping after that was confirmed, by reading; 0: none yet
	busy   atomic.Bool  // a ping is being published
}

func newLiveness() *liveness { return &liveness{active: time.Now()} }

// touch notes that the consumer got a message.
func (l *liveness) touch() {
	l.active = time.Now()
	l.pinged.Store(0)
}

// idle says that it is time for a ping.
func (l *liveness) idle() bool { return time.Since(l.active) >= pingEvery }

// confirmed notes that a ping is in the intake.
func (l *liveness) confirmed() { l.pinged.CompareAndSwap(0, int64(reading(time.Now()))) }

// lost reports whether a confirmed ping has not come back in time.
func (l *liveness) lost() bool {
	at := l.pinged.Load()
	return at != 0 && reading(time.Now())-time.Duration(at) > pingTimeout
}

// ping sends a message through the intake, unless one is still being published because the broker
// blocks publishers. It expires after a minute where no controller consumes.
func (c *consumer) ping(l *liveness) {
	if !l.busy.CompareAndSwap(false, true) {
		return
	}
	defer l.busy.Store(false)
	none := amqp091.Publishing{Expiration: "60000"} // ms
	ping := message.Seal(none, message.NewEnvelope(time.Now(), 0, ""), amqp091.Table{pingHeader: true})
	msg := broker.Publishing{Exchange: c.blueprint.names.enter(), Message: ping}
	if c.publisher.Publish(c.alive, msg) == nil {
		l.confirmed()
	}
}

// isPing reports whether a message is a controller's ping.
func isPing(d *amqp091.Delivery) bool {
	_, stamped := d.Headers[message.Stamp]
	_, ping := d.Headers[pingHeader]
	return ping && !stamped
}
