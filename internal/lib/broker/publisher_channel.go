package broker

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// window is how many messages of a channel may be unconfirmed at a time. The Go channel for returns
// is as large: amqp091-go never waits for us, which would make it stall and drop the event.
const window = 1024

// A publisherChannel is a publishing channel that is opened again when it is lost. One goroutine
// writes to it, so that Publish can obey its ctx: a write into a full socket cannot be cancelled.
type publisherChannel struct {
	publisher *Publisher
	conn      *Conn
	onReset   func() // called when it is opened again after it was lost

	pool    *pool       // that it is of; nil for others
	to      destination // that it is lent to; guarded by pool.mu, as users
	users   int         // who use it for that destination
	since   time.Time   // it is free
	accepts atomic.Bool // the destination has taken a message since

	submitted chan *Pending // buffered: the writer finds the next without waking its caller first
	slots     chan struct{} // one for each message without a confirm
	filling   chan struct{} // held while slots of a channel of a pool are taken
	first     *Pending      // the writer's, before those: it was left to this channel by the last
	body      []byte        // the writer's copy of a body

	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{}
	retiring sync.WaitGroup // channels that another has replaced
}

// ended waits for the goroutines, after cancel.
func (c *publisherChannel) ended() {
	<-c.done
	c.retiring.Wait()
}

// enter waits until there is room in slots or filling.
func (c *publisherChannel) enter(ctx context.Context, room chan struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	default:
	}
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return c.publisher.fail(delayer.ErrNotSent, context.Cause(ctx), "the broker has not confirmed the messages before it")
	}
}

// covers reports whether a message may share a channel of the pool with others to its destination.
func (c *publisherChannel) covers(msg *Publishing) bool {
	return c.publisher.Covers(len(msg.Message.Body)) && (c.accepts.Load() || !msg.Direct)
}

const (
	waitForAnswer = false // the noWait argument of amqp091-go's methods
	notImmediate  = false
)

// run opens a channel and writes to it until it is lost or replaced, again and again. While there
// is none, messages that are submitted fail.
func (c *publisherChannel) run() {
	defer close(c.done)
	for lost := false; c.ctx.Err() == nil; {
		ch, on, err := c.conn.channel(c.ctx)
		if err == nil {
			o := newOpenChannel(ch, on, cap(c.slots))
			if err = ch.Confirm(waitForAnswer); err == nil {
				if lost {
					c.onReset()
				}
				c.accepts.Store(false) // its exchange may be gone
				if c.pool == nil {
					c.publisher.opened.Add(1)
				}
				if lost = !c.serve(o); !lost {
					c.retiring.Go(func() { // it is closed once all its messages are confirmed
						o.pending.Wait()
						_ = o.ch.Close() // fails only where it is closed already
					})
				}
				continue
			}
		}
		lost = true
		m := c.first
		c.first = nil
		if m == nil {
			select {
			case <-c.ctx.Done():
			case <-time.After(firstPause):
			case m = <-c.submitted:
			}
		}
		if m != nil {
			m.fail(delayer.ErrNotSent, err, "")
		}
	}
}

// serve writes messages to a channel until it is lost or not needed any more. alive is false if it
// was lost. What waits is written together, and what comes within [gatherFor]. While the broker
// blocks the connection it takes no message: one that is not sent can still be withdrawn.
func (c *publisherChannel) serve(o *openChannel) (alive bool) {
	defer o.gathering.end()
	state, changed := c.conn.now()
	for {
		m, submitted := c.first, c.submitted
		if state.blocked {
			m, submitted = nil, nil
		}
		if m == nil {
			if len(submitted) == 0 && o.gathering.on {
				runtime.Gosched() // whoever is about to publish goes along
			}
			var late <-chan time.Time
			if len(submitted) == 0 {
				late = o.gathering.idle(o.sent.Load() - o.done.Load())
			}
			select {
			case m = <-submitted:
			case <-late:
			case <-changed:
				state, changed = c.conn.now()
			case <-o.closed:
				return false
			case <-o.renew:
				return true
			case <-c.ctx.Done():
				return true
			}
			if m == nil {
				continue
			}
		}
		c.first = m // unless it is written here the next channel writes it, before those that came later
		if o.ch.IsClosed() {
			<-o.closed
			return false
		}
		select {
		case <-o.renew:
			return true
		default:
		}
		c.first = nil
		o.gathering.begin()
		c.write(o, m)
	}
}

// write writes a message, unless its caller has left, or its Proof fails.
func (c *publisherChannel) write(o *openChannel, m *Pending) {
	if m.msg.Proof != nil {
		known, err := m.msg.Proof.Known(o.conn)
		if !known {
			o.gathering.end() // it would hold up what the proof writes
			err = m.msg.Proof.Prove(c.ctx, o.conn)
		}
		if err != nil {
			m.fail(delayer.ErrNotSent, err, "")
			return
		}
	}
	m.mu.Lock()
	left := m.state == withdrawn
	if !left {
		m.state = taken
		if m.leaves {
			c.body = append(c.body[:0], m.msg.Message.Body...)
			m.msg.Message.Body = c.body
		}
	}
	m.mu.Unlock()
	if left {
		return // its slot is free
	}
	if m.msg.Fill != nil && !m.msg.Fill(&m.msg.Message) {
		m.fail(delayer.ErrNotSent, nil, "")
		return
	}
	o.pending.Add(1)
	o.sent.Add(1)
	confirm, err := o.ch.PublishWithDeferredConfirm(m.msg.Exchange, m.msg.Key, !m.msg.Optional, notImmediate, m.msg.Message)
	if err != nil {
		o.settled()
	}
	switch {
	case err == nil:
		if m.msg.Written != nil {
			m.msg.Written()
		}
		m.confirm, m.open = confirm, o
		m.written <- struct{}{}
	case errors.Is(err, amqp091.ErrClosed):
		m.fail(delayer.ErrNotSent, plain(err), "the connection was lost before the message was sent")
	default: // part of it may be on the wire
		m.fail(delayer.ErrUnknown, plain(err), "the connection was lost while the message was sent")
	}
	if cap(c.body) > keptBody {
		c.body = nil
	}
}

// keptBody is the largest buffer that a channel keeps for the next body.
const keptBody = 1 << 20

// An openChannel is one AMQP channel of a publisherChannel, with its returns and the cause of its
// end.
type openChannel struct {
	ch        *amqp091.Channel
	conn      *amqp091.Connection
	gathering gathering     // used by the goroutine that writes
	closed    chan struct{} // closed once ch is, and cause is known

	returns chan amqp091.Return

	opened    time.Time
	sent      atomic.Int64 // messages, ever,
	done      atomic.Int64 // and those of them that are confirmed, or will never be
	pending   sync.WaitGroup
	replacing sync.Once
	renew     chan struct{} // closed when another channel is to take its place

	mu      sync.Mutex
	waiting []amqp091.Return // not yet asked for
	cause   error
}

func newOpenChannel(ch *amqp091.Channel, on connState, window int) *openChannel {
	o := &openChannel{
		ch: ch, conn: on.conn, gathering: newGathering(on.wire),
		closed:  make(chan struct{}),
		opened:  time.Now(),
		renew:   make(chan struct{}),
		returns: ch.NotifyReturn(make(chan amqp091.Return, window)),
	}
	notify := ch.NotifyClose(make(chan *amqp091.Error, 1))
	go func() {
		o.cause = amqp091.ErrClosed
		if err := <-notify; err != nil {
			o.cause = err
		}
		close(o.closed)
	}()
	return o
}

// settled notes that a message is confirmed, or will never be.
func (o *openChannel) settled() {
	o.done.Add(1)
	o.pending.Done()
}

// renewAfter is the least time between two channels, where the broker refuses messages.
const renewAfter = time.Second

// nacked notes that the broker refused a message. A channel that first meets a quorum queue while
// its leader is down refuses messages until that node is back, although another node leads
// (rabbit_fifo_client:enqueue/3; seen on RabbitMQ 3.10.8). So a new channel is opened.
func (o *openChannel) nacked() {
	o.replacing.Do(func() { time.AfterFunc(renewAfter-time.Since(o.opened), func() { close(o.renew) }) })
}

// replace lets another channel take its place, at once unless nacked does so soon.
func (o *openChannel) replace() { o.replacing.Do(func() { close(o.renew) }) }

// returned reports whether the broker returned a message. Call it after the confirm: a return always
// comes before the confirm of its message.
func (o *openChannel) returned(msg *Publishing) (amqp091.Return, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for more := true; more; {
		select {
		case r, ok := <-o.returns:
			if more = ok; ok {
				o.waiting = append(o.waiting, r)
			}
		default:
			more = false
		}
	}
	i := slices.IndexFunc(o.waiting, msg.alike)
	if i < 0 {
		return amqp091.Return{}, false
	}
	r := o.waiting[i]
	o.waiting = slices.Delete(o.waiting, i, i+1)
	return r, true
}

// alike reports whether a returned message may be this one. It compares no bodies: the channel may
// have taken back that of this one.
func (m *Publishing) alike(r amqp091.Return) bool {
	msg := &m.Message
	id, _ := msg.Headers[delayer.Header].(string)
	its, _ := r.Headers[delayer.Header].(string)
	return id == its && m.Key == r.RoutingKey && msg.MessageId == r.MessageId && msg.CorrelationId == r.CorrelationId && len(msg.Body) == len(r.Body)
}
