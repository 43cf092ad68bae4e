package undelivered

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
)

const (
	// A window is how many messages one channel gets. It bounds this process's memory, because
	// amqp091-go buffers all that the broker sends. The first is one message, whose body may have
	// 100 MiB; the next ones hold about windowBytes of bodies as large as those before on average.
	firstWindow = 1
	largerBy    = 8 // at most, each
	windowSize  = 1000
	windowBytes = 4 << 20
	// mostWindows is half of 2047, the number of channels that brokers allow on a connection. With
	// more messages, windows are larger, after the first windowSize messages.
	mostWindows = 1000
	// idleFor is how long to wait for a message before the queue is counted again.
	idleFor = 5 * time.Second
	// silentFor is how long a queue may have messages and deliver none: one of 128 MiB may be on
	// its way.
	silentFor = 10 * time.Minute
	// misroutedFor is the same for the misrouted queue. If a Delayer runs, it gets its messages.
	misroutedFor = 15 * time.Second
	// settleFor bounds how long Close waits for the queue to have the returned messages again.
	settleFor = 10 * time.Second
)

// A Reader reads each queue once, from the oldest message on. It holds the messages that it has
// read. Close returns those that were not removed to the queue, in their order.
//
// A quorum queue delivers what was returned to it first, and in the order in which it was returned.
// So order is kept if all up to one that was never returned are read: [Reader.Enough] reads so far.
type Reader struct {
	client  *Client
	queues  []*queue // still to be read
	windows []*window
	enough  bool
	last    *Kept
}

// A queue is read in windows.
type queue struct {
	name    string
	left    int  // messages still to be read
	size    int  // of the next window
	read    int  // messages that were read,
	sum     int  // and the bytes of their bodies
	min     int  // of a window
	soon    int  // how many are read in any case
	got     int  // messages that windows were asked for
	sparing bool // windows are small again, after Enough
	back    int  // how many it will have once the windows that were closed are back
}

// grow sets the size of the next window. After Enough windows begin with one message again: what a
// window gets and nobody wants must be read the next time too.
func (q *queue) grow(enough bool) {
	switch {
	case q.read == 0, enough && !q.sparing && q.got >= q.soon:
		q.size, q.sparing = firstWindow, enough
	default:
		fits := windowBytes / max(q.sum/q.read, 1)
		q.size = max(min(fits, q.size*largerBy, windowSize), 1)
		if q.read >= windowSize {
			q.size = max(q.size, q.min)
		}
	}
	if q.got < q.soon {
		q.size = min(q.size, q.soon-q.got)
	}
	q.got += q.size
}

// A window is a channel with a consumer that gets so many messages, and no more until some are
// removed. Further messages go to the next window.
type window struct {
	of   *queue
	ch   *amqp091.Channel
	in   <-chan amqp091.Delivery
	lost <-chan *amqp091.Error
	room int    // how many more it will be given
	held int    // messages read and not removed
	tag  uint64 // of the last one
	// ended: it has no consumer any more, and what that got is in the channel in.
	ended bool
}

// Read starts to read the messages that are now in the queues, and returns how many there are. It
// receives none where that would do harm to them.
func (b *Client) Read(ctx context.Context) (*Reader, int, error) {
	r, total := &Reader{client: b}, 0
	b.held = nil
	for _, name := range b.queues {
		count, err := b.count(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		r.queues = append(r.queues, &queue{name: name, left: count, min: count/mostWindows + 1})
		total += count
		if count > 0 {
			if err := b.harmless(ctx, name); err != nil {
				return nil, 0, err
			}
			b.held = append(b.held, name)
		}
	}
	return r, total, nil
}

// Soon says how many messages of the last queue will be read in any case, so that the broker sends
// no more than these before it is known whether they are wanted.
func (r *Reader) Soon(n int) { r.queues[len(r.queues)-1].soon = n }

// Enough says that no more messages are wanted. Next still returns those that must be read so that
// the queue keeps its order.
func (r *Reader) Enough() { r.enough = true }

// Returned is how many messages of the last queue Close has returned. Whoever reads it the next
// time must read as many at least.
func (r *Reader) Returned() (n int) {
	for _, w := range r.windows {
		if w.of.name == r.client.Queue() {
			n += w.held
		}
	}
	return n
}

// Next returns the next message, io.EOF after the last, or after Enough.
func (r *Reader) Next(ctx context.Context) (*Kept, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r.enough && (r.last == nil || !r.last.returned()) {
		return nil, io.EOF
	}
	for len(r.queues) > 0 && r.queues[0].left == 0 {
		r.queues = r.queues[1:]
	}
	if len(r.queues) == 0 {
		return nil, io.EOF
	}
	q := r.queues[0]
	w, err := r.current(ctx, q)
	if err != nil {
		return nil, r.client.explain("read", q.name, err)
	}
	for waited := time.Duration(0); ; {
		select {
		case d, ok := <-w.in:
			if !ok && w.ended { // someone else has taken them
				q.left = 0
				return r.Next(ctx)
			}
			if !ok {
				return nil, r.client.explain("read", q.name, w.cause())
			}
			q.left--
			q.read++
			q.sum += len(d.Body)
			w.room--
			w.held++
			w.tag = d.DeliveryTag
			r.last = newKept(r.client, d, w)
			return r.last, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(idleFor):
			count, err := r.client.count(ctx, q.name)
			if err != nil {
				return nil, err
			}
			if waited += idleFor; count > 0 && q.name != r.client.Queue() && waited >= misroutedFor {
				q.left = 0 // a Delayer is about to send them on
				return r.Next(ctx)
			}
			if count > 0 && waited >= silentFor {
				return nil, r.client.explain("read", q.name, fmt.Errorf("it has %d messages and delivers none: is it one with a single active consumer? Its messages cannot be looked at", count))
			}
			if count > 0 {
				continue
			}
			// Either someone else has taken them, or one is on its way to us: 100 MiB take their
			// time. The broker answers behind it.
			if err := w.end(); err != nil {
				return nil, r.client.explain("read", q.name, err)
			}
		}
	}
}

// current is the last window, or a new one if that is full.
func (r *Reader) current(ctx context.Context, q *queue) (*window, error) {
	if n := len(r.windows); n > 0 && r.windows[n-1].room > 0 && r.windows[n-1].of == q {
		return r.windows[n-1], nil
	}
	if n := len(r.windows); n > 0 {
		full := r.windows[n-1]
		if full.ch.IsClosed() { // another connection would begin anew
			return nil, full.cause()
		}
		if full.of == q && q.name != r.client.Queue() { // of the consumers of the misrouted queue one is active
			if err := full.end(); err != nil {
				return nil, err
			}
		}
	}
	q.grow(r.enough)
	ch, err := r.client.conn.Channel(ctx)
	if err != nil {
		return nil, err
	}
	const noSize, wholeChannel = 0, false
	if err := ch.Qos(q.size, noSize, wholeChannel); err != nil {
		return nil, err
	}
	w := &window{of: q, ch: ch, room: q.size, lost: ch.NotifyClose(make(chan *amqp091.Error, 1))}
	const autoAck, noLocal = false, false
	w.in, err = ch.Consume(q.name, consumerTag, autoAck, !exclusive, noLocal, waitForAnswer, nil)
	if err != nil {
		return nil, err
	}
	r.windows = append(r.windows, w)
	return w, nil
}

const consumerTag = "delayer-messages"

// cause returns why no more messages come.
func (w *window) cause() error {
	select {
	case err := <-w.lost:
		if err != nil {
			return err
		}
	case <-time.After(time.Second): // the queue was deleted: the channel lives on
	}
	return errors.New("the broker ended it: was the queue deleted, or the connection lost?")
}

// Close returns the messages that were read and not removed to the queue, and waits until the queue
// has them. If the connection is lost, the broker returns them by itself.
func (r *Reader) Close() {
	for _, w := range r.windows { // first, or a window with room would get messages that another returns
		_ = w.end()           // fails only if the channel is lost
		for d := range w.in { // it had come, and nobody has read it
			w.of.left--
			w.held++
			w.tag = d.DeliveryTag
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleFor)
	defer cancel()
	limited, counted := r.client.conn.From(4, 0), map[*queue]bool{}
	for _, w := range r.windows { // one after the other, to keep the order
		if q := w.of; !counted[q] {
			q.back, _ = r.client.count(ctx, q.name) // an error ends the wait below too
			counted[q] = true
		}
		// To close a channel is to have failed: from RabbitMQ 4.0 on that counts towards a quorum queue's
		// delivery limit, 20 by default. From 4.3 on a nack does not count; before, see [Nature]. Before
		// 4.0 there is no limit by default, and a nack would change the order.
		const all, requeue = true, true
		if limited && w.held > 0 && w.ch.Nack(w.tag, all, requeue) != nil || w.ch.Close() != nil {
			continue
		}
		w.of.back += w.held
		for ctx.Err() == nil { // until the queue has them; someone else may take them first, which does no harm
			if count, err := r.client.count(ctx, w.of.name); err != nil || count >= w.of.back {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// end ends the consumer of the window. What the broker had sent it has come then.
func (w *window) end() error {
	if w.ended {
		return nil
	}
	w.ended = true
	return broker.Settle(w.ch, w.of.name, consumerTag)
}
