package entry

import (
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/acks"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

const (
	// ackWithin is how long a message that is done waits to be acknowledged together with others.
	// If this process is killed meanwhile, it comes again.
	ackWithin = 10 * time.Millisecond
	// aloneAfter is how long it waits for one before it that is still under way.
	aloneAfter = 100 * time.Millisecond
)

// A gatherer acknowledges the messages of a channel, several at a time.
type gatherer struct {
	most  int         // how many that are done may wait, so that the broker goes on delivering
	began time.Time   // the times of acks are since then
	some  pace.Signal // a message is done
	full  pace.Signal // those that are done must not wait

	mu      sync.Mutex
	channel amqp091.Acknowledger // nil before the first message
	acks    acks.Acks
}

// newGatherer returns that of a channel with so many messages under way at a time.
func newGatherer(prefetch int) *gatherer {
	return &gatherer{most: max(1, prefetch/4), began: time.Now(), some: pace.NewSignal(), full: pace.NewSignal()}
}

// begin notes a message that is under way from now on. What becomes of it is the gatherer's to
// tell.
func (g *gatherer) begin(d *amqp091.Delivery) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.channel == nil {
		g.acks = acks.New(d.DeliveryTag)
	}
	g.channel, d.Acknowledger = d.Acknowledger, g
}

// run acknowledges what is done, until ended closes and all of it is acknowledged. That fails only
// where the channel is lost: then it comes again.
func (g *gatherer) run(ended <-chan struct{}) {
	for {
		select {
		case <-g.some:
		case <-ended:
			g.flush(time.Now().Add(aloneAfter))
			return
		}
		for waiting := true; waiting; {
			select {
			case <-time.After(ackWithin):
			case <-g.full:
			case <-ended:
			}
			waiting = g.flush(time.Now())
		}
	}
}

// flush writes acknowledgements. It reports whether some wait.
func (g *gatherer) flush(now time.Time) (waiting bool) {
	g.mu.Lock()
	channel := g.channel
	upTo, within := g.acks.UpTo(), aloneAfter
	if g.acks.Waiting() >= g.most {
		within = 0
	}
	single := g.acks.Overdue(now.Sub(g.began), within)
	waiting = g.acks.Waiting() > 0
	g.mu.Unlock()
	const multiple = true
	if upTo > 0 {
		_ = channel.Ack(upTo, multiple)
	}
	for _, tag := range single {
		_ = channel.Ack(tag, !multiple)
	}
	return waiting
}

// Ack implements [amqp091.Acknowledger]: the message is done.
func (g *gatherer) Ack(tag uint64, _ bool) error {
	g.mu.Lock()
	g.acks.Done(tag, time.Since(g.began))
	full := g.acks.Waiting() >= g.most
	g.mu.Unlock()
	g.some.Set()
	if full {
		g.full.Set()
	}
	return nil
}

// Nack implements [amqp091.Acknowledger].
func (g *gatherer) Nack(tag uint64, multiple, requeue bool) error {
	return g.giveBack(tag, func(ch amqp091.Acknowledger) error { return ch.Nack(tag, multiple, requeue) })
}

// Reject implements [amqp091.Acknowledger].
func (g *gatherer) Reject(tag uint64, requeue bool) error {
	return g.giveBack(tag, func(ch amqp091.Acknowledger) error { return ch.Reject(tag, requeue) })
}

// giveBack answers for one message. Nothing that stands for it is written before: it is over only
// then. The next message may begin meanwhile.
func (g *gatherer) giveBack(tag uint64, answer func(amqp091.Acknowledger) error) error {
	g.mu.Lock()
	channel := g.channel
	g.mu.Unlock()
	err := answer(channel)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acks.Over(tag)
	return err
}
