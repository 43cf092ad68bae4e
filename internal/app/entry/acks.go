package entry

import (
	"math"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	// ackWithin is how long a message that is done waits to be acknowledged together with others. If this
	// process is killed meanwhile, it comes again.
	ackWithin = 10 * time.Millisecond
	// aloneAfter is how long it waits for one before it that is still under way.
	aloneAfter = 100 * time.Millisecond
)

// acks decide which messages of a channel to acknowledge together. A quorum queue stores each
// acknowledgement in its log; one that stands for all messages up to a tag costs no more than one of a
// single message.
type acks struct {
	most int             // how many that are done may wait, so that the broker goes on delivering
	open map[uint64]bool // the tags of what is under way
	done []finished      // what is not acknowledged; the first done first
}

// finished is a message that is confirmed where it went.
type finished struct {
	tag   uint64
	since time.Time
}

// newAcks decide for a channel with so many messages under way at a time.
func newAcks(prefetch int) acks { return acks{most: max(1, prefetch/4), open: map[uint64]bool{}} }

// finish notes that a message is done. It reports whether those that are done are too many to wait.
func (a *acks) finish(tag uint64, now time.Time) (full bool) {
	delete(a.open, tag)
	a.done = append(a.done, finished{tag, now})
	return len(a.done) >= a.most
}

// take returns what is to be acknowledged now: all messages up to a tag, if that is not 0, and single ones
// behind a message that is under way. Those wait for it, but not for long, and not if they are many.
func (a *acks) take(now time.Time) (upTo uint64, single []uint64) {
	first := uint64(math.MaxUint64)
	for tag := range a.open {
		first = min(first, tag)
	}
	var behind []finished
	for _, f := range a.done {
		if f.tag < first {
			upTo = max(upTo, f.tag)
		} else {
			behind = append(behind, f)
		}
	}
	a.done = nil
	for _, f := range behind {
		if len(behind) >= a.most || now.Sub(f.since) >= aloneAfter {
			single = append(single, f.tag)
		} else {
			a.done = append(a.done, f)
		}
	}
	return upTo, single
}

// A gatherer acknowledges the messages of a channel, several at a time.
type gatherer struct {
	channel amqp091.Acknowledger

	mu   sync.Mutex
	acks acks
	some chan struct{} // signalled when a message is done,
	full chan struct{} // and when those that are must not wait
}

func newGatherer(prefetch int) *gatherer {
	return &gatherer{acks: newAcks(prefetch), some: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// begin notes a message that is under way from now on. What becomes of it is the gatherer's to tell.
func (g *gatherer) begin(d *amqp091.Delivery) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acks.open[d.DeliveryTag] = true
	g.channel, d.Acknowledger = d.Acknowledger, g
}

// run acknowledges what is done, until ended closes and all of it is acknowledged. That fails only where
// the channel is lost: then it comes again.
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
	upTo, single := g.acks.take(now)
	waiting = len(g.acks.done) > 0
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
	full := g.acks.finish(tag, time.Now())
	g.mu.Unlock()
	signal(g.some)
	if full {
		signal(g.full)
	}
	return nil
}

// Nack implements [amqp091.Acknowledger]. Nothing that stands for the message is written before.
func (g *gatherer) Nack(tag uint64, multiple, requeue bool) error {
	defer g.over(tag)
	return g.acknowledger().Nack(tag, multiple, requeue)
}

// Reject implements [amqp091.Acknowledger].
func (g *gatherer) Reject(tag uint64, requeue bool) error {
	defer g.over(tag)
	return g.acknowledger().Reject(tag, requeue)
}

// acknowledger is that of the channel. The next message may begin meanwhile.
func (g *gatherer) acknowledger() amqp091.Acknowledger {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.channel
}

// over notes that a message needs no acknowledgement any more.
func (g *gatherer) over(tag uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.acks.open, tag)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
