package undelivered

import (
	"context"
	"errors"
	"io"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
)

const (
	// A window is how many messages one channel gets. It bounds this process's memory, because
	// amqp091-go buffers all that the broker sends. The first is small; the next ones hold about
	// windowBytes of bodies as large as those before on average.
	firstWindow = 16
	largerBy    = 8 // at most, each
	windowSize  = 1000
	windowBytes = 4 << 20
	// mostWindows is below 2047, the number of channels that brokers allow on a connection. With
	// more messages, windows are larger.
	mostWindows = 1000
	// idleFor is how long to wait for a message before the queue is counted again.
	idleFor = 5 * time.Second
	// settleFor bounds how long Close waits for the queue to have the returned messages again.
	settleFor = 10 * time.Second
)

// A Reader reads each queue once, from the oldest message on. It holds the messages that it has
// read. Close returns those that were not removed to the queue, in their order.
//
// The order is kept only if all are read: a quorum queue puts returned messages behind those
// returned before.
type Reader struct {
	client  *Client
	queues  []*queue // still to be read
	windows []*window
}

// A queue is read in windows.
type queue struct {
	name string
	left int // messages still to be read
	size int // of the next window
	read int // messages that were read,
	sum  int // and the bytes of their bodies
	min  int // of a window
	back int // messages given back
}

// grow sets the size of the next window.
func (q *queue) grow() {
	if q.read == 0 {
		q.size = max(firstWindow, q.min)
		return
	}
	fits := windowBytes / max(q.sum/q.read, 1)
	q.size = max(min(fits, q.size*largerBy, windowSize), q.min, 1)
}

// A window is a channel with a consumer that gets so many messages, and no more until some are
// removed. Further messages go to the next window.
type window struct {
	of   *queue
	ch   *amqp091.Channel
	in   <-chan amqp091.Delivery
	lost <-chan *amqp091.Error
	room int // how many more it will be given
	held int // messages read and not removed
}

// Read starts to read the messages that are now in the queues, and returns how many there are.
func (b *Client) Read(ctx context.Context) (*Reader, int, error) {
	r, total := &Reader{client: b}, 0
	for _, name := range b.queues {
		count, err := b.count(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		r.queues = append(r.queues, &queue{name: name, left: count, min: count/mostWindows + 1})
		total += count
	}
	return r, total, nil
}

// Next returns the next message, io.EOF after the last.
func (r *Reader) Next(ctx context.Context) (*Kept, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
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
	for {
		select {
		case d, ok := <-w.in:
			if !ok {
				return nil, r.client.explain("read", q.name, w.cause())
			}
			q.left--
			q.read++
			q.sum += len(d.Body)
			w.room--
			w.held++
			return newKept(r.client, d, w), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(idleFor):
			count, err := r.client.count(ctx, q.name)
			if err != nil {
				return nil, err
			}
			if count == 0 { // someone else has taken them
				q.left = 0
				return r.Next(ctx)
			}
		}
	}
}

// current is the last window, or a new one if that is full.
func (r *Reader) current(ctx context.Context, q *queue) (*window, error) {
	if n := len(r.windows); n > 0 && r.windows[n-1].room > 0 && r.windows[n-1].of == q {
		return r.windows[n-1], nil
	}
	q.grow()
	ch, err := r.client.conn.Channel(ctx)
	if err != nil {
		return nil, err
	}
	w := &window{of: q, ch: ch, room: q.size, lost: ch.NotifyClose(make(chan *amqp091.Error, 1))}
	r.windows = append(r.windows, w)
	const noSize, wholeChannel = 0, false
	if err := ch.Qos(q.size, noSize, wholeChannel); err != nil {
		return nil, err
	}
	const autoAck, noLocal = false, false
	w.in, err = ch.Consume(q.name, consumerTag, autoAck, !exclusive, noLocal, waitForAnswer, nil)
	return w, err
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
		_ = broker.Settle(w.ch, w.of.name, consumerTag) // fails only if the channel is lost
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleFor)
	defer cancel()
	for _, w := range r.windows { // one after the other, to keep the order
		if err := w.ch.Close(); err != nil {
			continue
		}
		w.of.back += w.held
		r.settle(ctx, w.of)
	}
}

// settle waits until the queue has the returned messages, at most until ctx ends. It does no harm
// if someone else takes them first.
func (r *Reader) settle(ctx context.Context, q *queue) {
	for ctx.Err() == nil {
		if count, err := r.client.count(ctx, q.name); err != nil || count >= q.back {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
