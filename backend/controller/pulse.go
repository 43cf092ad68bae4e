package controller

import (
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/message"
)

const (
	// pingEvery is how often a controller that hears nothing sends a message through the intake.
	pingEvery = 3 * time.Second
	// silence is how long, after one was stored there, it may go on hearing nothing. Where several controllers listen, each
	// gets its share of the messages of all.
	silence = 12 * time.Second
	// pingHeader tells such a message from one that is not ours. What a Delayer has published never has it alone: it has a
	// stamp as well.
	pingHeader = "x-delayer-ping"
)

// A pulse tells whether a session still gets what is in the intake. A consumer may live on without: when the intake is deleted
// and declared again at once, the broker moves it to the new queue by itself, and where that is a quorum queue drops what it
// delivers, unacknowledged, for as long as the channel lives (rabbit_channel, queue_down_consumer_action; seen on
// RabbitMQ 3.10.8 and 4.3.6). Nobody is told.
type pulse struct {
	heard time.Time    // when something came, or was held, last
	asked atomic.Int64 // when the first ping since was stored, in nanoseconds since clockStart; 0: none yet
	busy  atomic.Bool  // a ping is on its way
}

func newPulse() *pulse { return &pulse{heard: time.Now()} }

// hear notes that something has come.
func (p *pulse) hear() {
	p.heard = time.Now()
	p.asked.Store(0)
}

// quiet says that it is time for a ping.
func (p *pulse) quiet() bool { return time.Since(p.heard) >= pingEvery }

// stored notes that a ping is in the intake.
func (p *pulse) stored() { p.asked.CompareAndSwap(0, int64(time.Since(clockStart))) }

// gone says that what is in the intake does not come.
func (p *pulse) gone() bool {
	asked := p.asked.Load()
	return asked != 0 && time.Since(clockStart)-time.Duration(asked) > silence
}

// ping sends a message through the intake, unless one is still on its way there. It expires where no controller listens.
func (s *session) ping(p *pulse) {
	if !p.busy.CompareAndSwap(false, true) {
		return // the broker blocks who publishes
	}
	defer p.busy.Store(false)
	msg := message.Seal(amqp091.Publishing{}, message.NewEnvelope(time.Now(), 0, ""), amqp091.Table{pingHeader: true})
	msg.Expiration = "60000" // ms
	err := s.publisher.Publish(s.alive, broker.Publishing{Exchange: s.blueprint.names.enter(), Message: msg})
	if err == nil {
		p.stored()
	}
}

// isPing says that a message is a controller's own.
func isPing(d *amqp091.Delivery) bool {
	_, stamped := d.Headers[message.Journey]
	_, ping := d.Headers[pingHeader]
	return ping && !stamped
}
