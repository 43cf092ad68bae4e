package rounds

import (
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
	active    time.Time  // when a message last came, or was held
	confirmed time.Time  // when the first ping after that was; zero: none yet
	busy      bool       // a ping is being published
	pinged    chan error // buffered: what became of it
}

func newLiveness() *liveness { return &liveness{active: time.Now(), pinged: make(chan error, 1)} }

// touch notes that the consumer got a message.
func (l *liveness) touch() { l.active, l.confirmed = time.Now(), time.Time{} }

// confirm notes what became of a ping.
func (l *liveness) confirm(err error) {
	l.busy = false
	if err == nil && l.confirmed.IsZero() {
		l.confirmed = time.Now()
	}
}

// lost reports whether a ping has not come back in time. It sends one if the consumer is idle.
func (c *consumer) lost() bool {
	l := c.alert
	switch {
	case len(c.held.items) > 0:
		l.touch() // a full memory stops deliveries
	case !l.confirmed.IsZero() && time.Since(l.confirmed) > pingTimeout:
		c.at.session.Log.Warn("the controller's consumer gets no messages although its queue has some; it consumes again",
			"queue", c.at.wheel.names.intake())
		return true
	case time.Since(l.active) >= pingEvery && !l.busy: // a broker that blocks publishers keeps it busy
		l.busy = true
		c.work(func() { l.pinged <- c.ping() })
	}
	return false
}

// ping sends a message through the intake. It expires after a minute where no controller consumes.
func (c *consumer) ping() error {
	none := amqp091.Publishing{Expiration: "60000"} // ms
	ping := message.Seal(none, message.NewEnvelope(time.Now(), 0, ""), amqp091.Table{pingHeader: true})
	return c.at.session.Publisher.Publish(c.alive, broker.Publishing{Exchange: c.at.wheel.names.enter(), Message: ping})
}

// isPing reports whether a message is a controller's ping.
func isPing(d *amqp091.Delivery) bool {
	_, stamped := d.Headers[message.Stamp]
	_, ping := d.Headers[pingHeader]
	return ping && !stamped
}
