package broker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	backend string
	conn    *Conn
	proof   *proof
	stream  bool   // it writes to one stream and nothing else
	onReset func() // called when it is opened again after it was lost

	pool    *pool       // that it is of; nil for others
	to      destination // that it is lent to; guarded by pool.mu, as users
	users   int         // who use it for that destination
	since   time.Time   // it is free
	accepts atomic.Bool // the destination has taken a message since

	requests chan *request // buffered: the writer finds the next without waking its caller first
	slots    chan struct{} // one for each message without a confirm
	gate     chan struct{} // held while waiting for slots of a channel of a pool
	first    *request      // the writer's, before those: it was left to this channel by the last
	body     []byte        // the writer's copy of a body

	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{}
	retiring sync.WaitGroup // channels that another has replaced
}

// startPublisherChannel lets c run, with so many messages unconfirmed at a time.
func startPublisherChannel(c *publisherChannel, window int) *publisherChannel {
	c.requests, c.slots = make(chan *request, window), make(chan struct{}, window)
	c.gate, c.done = make(chan struct{}, 1), make(chan struct{})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.run()
	return c
}

// ended waits for the goroutines, after cancel.
func (c *publisherChannel) ended() {
	<-c.done
	c.retiring.Wait()
}

func (c *publisherChannel) fail(kind, cause error, hint string) *delayer.Error {
	return &delayer.Error{Op: "publish", Backend: c.backend, Kind: kind, Cause: cause, Hint: hint}
}

// slot waits for a slot, unless it must not.
func (c *publisherChannel) slot(ctx context.Context, wait bool) error {
	return c.enter(ctx, c.slots, wait)
}

// enter waits until there is room in a channel of this channel's.
func (c *publisherChannel) enter(ctx context.Context, room chan struct{}, wait bool) error {
	select {
	case room <- struct{}{}:
		return nil
	default:
	}
	if !wait {
		return errBusy
	}
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return c.fail(delayer.ErrNotSent, context.Cause(ctx), "the broker has not confirmed the messages before it")
	}
}

// acquire waits for a slot of a channel of a pool. If the broker may close the channel because of
// the message, it waits for all slots: the message is alone then. slots says how many it has.
func (c *publisherChannel) acquire(ctx context.Context, msg *Publishing, wait bool) (slots int, err error) {
	if err := c.enter(ctx, c.gate, wait); err != nil {
		return 0, err
	}
	defer func() { <-c.gate }()
	for slots < cap(c.slots) && (slots == 0 || !c.covers(msg)) {
		if err := c.slot(ctx, wait); err != nil {
			c.free(slots)
			return 0, err
		}
		slots++
	}
	if c.covers(msg) { // those before it have proved that the broker takes it
		c.free(slots - 1)
		return 1, nil
	}
	if limit, is := c.proof.oversize(msg); is {
		c.free(slots)
		return 0, c.fail(delayer.ErrInvalid, fmt.Errorf("the body has %d bytes, the broker accepts %d (max_message_size)", len(msg.Message.Body), limit), "")
	}
	return slots, nil
}

// covers reports whether a message may share the channel with others.
func (c *publisherChannel) covers(msg *Publishing) bool {
	return c.proof.covers(len(msg.Message.Body)) && (c.accepts.Load() || !msg.Direct)
}

// free frees slots, so that others may have them.
func (c *publisherChannel) free(slots int) {
	for range slots {
		<-c.slots
	}
}

// release frees what a message has of the channel.
func (c *publisherChannel) release(slots int) {
	c.free(slots)
	if c.pool != nil {
		c.pool.put(c)
	}
}

// publish publishes a message and waits for its confirm. It needs slots.
func (c *publisherChannel) publish(ctx context.Context, msg Publishing, slots int) error {
	req, err := c.submit(ctx, newRequest(msg, slots, ctx.Done() != nil))
	if err != nil {
		return err
	}
	return c.await(ctx, req)
}

// submit hands a message to the goroutine that writes. It needs slots, which await frees; so does
// submit with an error.
func (c *publisherChannel) submit(ctx context.Context, req *request) (*request, error) {
	select {
	case c.requests <- req:
		return req, nil
	case <-ctx.Done():
		c.release(req.slots)
		return nil, c.fail(delayer.ErrNotSent, c.conn.gaveUp(ctx), "")
	case <-c.done:
		c.release(req.slots)
		return nil, c.fail(delayer.ErrClosed, nil, "")
	}
}

// await waits for the confirm of a submitted message.
func (c *publisherChannel) await(ctx context.Context, req *request) error {
	w, err := c.written(ctx, req)
	if err != nil {
		return err
	}
	if !w.confirmed(ctx) {
		go c.settle(req, w)
		return c.fail(delayer.ErrUnknown, context.Cause(ctx), "ctx ended before the broker's confirm")
	}
	return c.finish(w, req)
}

// finish returns the outcome of a message that is confirmed.
func (c *publisherChannel) finish(w writeResult, req *request) error {
	err := c.outcome(w, req)
	c.learn(req, err)
	w.channel.settled()
	c.release(req.slots)
	req.recycle()
	return err
}

// written waits until a message is written. A message that is not written by the time that ctx ends
// is withdrawn.
func (c *publisherChannel) written(ctx context.Context, req *request) (w writeResult, err error) {
	select {
	case w = <-req.written:
	case <-ctx.Done():
		if req.withdraw() {
			c.release(req.slots)
			return w, c.fail(delayer.ErrNotSent, c.conn.gaveUp(ctx), "")
		}
		select {
		case w = <-req.written:
		default:
			go func() { c.settle(req, <-req.written) }()
			return w, c.fail(delayer.ErrUnknown, context.Cause(ctx), "ctx ended while the message was being written")
		}
	case <-c.done:
		if req.withdraw() {
			c.release(req.slots)
			return w, c.fail(delayer.ErrClosed, nil, "")
		}
		w = <-req.written
	}
	if w.err != nil {
		c.release(req.slots)
		return w, w.err
	}
	return w, nil
}

// outcome evaluates a confirm. When the channel dies, amqp091-go first marks it closed and then
// resolves its confirms as nacks.
func (c *publisherChannel) outcome(w writeResult, req *request) error {
	if w.confirm.Acked() {
		if ret, ok := w.channel.returned(req.msg.Message.Headers[delayer.Header]); ok {
			if c.stream {
				w.channel.replace()
			}
			return c.fail(delayer.ErrUnroutable, returnedError(ret), "")
		}
		return nil
	}
	if w.channel.ch.IsClosed() {
		return c.closed(w, req)
	}
	w.channel.nacked()
	return c.refused(req.msg.Sole)
}

// refused is the outcome of a message that the broker has refused with a nack. One queue that
// refuses the message is enough for a nack: others may have it. So may a classic queue whose
// process has died.
func (c *publisherChannel) refused(sole bool) error {
	if sole {
		return c.fail(delayer.ErrRefused, errors.New("nack"), "is the waiting queue full, or without a majority of its replicas?")
	}
	cause := &reason{text: "nack, and another queue may have stored the message", err: delayer.ErrUnknown}
	return c.fail(delayer.ErrRefused, cause, "is a queue full, or without a majority of its replicas?")
}

// learn notes what the broker's answer tells of messages to come.
func (c *publisherChannel) learn(req *request, err error) {
	if err == nil || errors.Is(err, ErrReturned) || errors.Is(err, delayer.ErrRefused) {
		c.proof.taken(len(req.msg.Message.Body))
		if !c.accepts.Load() {
			c.accepts.Store(true)
		}
		return
	}
	c.proof.learn(err)
}

// closed is the outcome of a message whose channel was lost before its confirm. If no other message
// was on the channel and the broker closed it because of a message, it was this one.
func (c *publisherChannel) closed(w writeResult, req *request) error {
	cause := w.channel.lost()
	hint, kind := refusal(cause)
	only := req.slots > 1 || w.channel.sent.Load() == 1
	switch {
	case !only || kind == nil:
		return c.fail(delayer.ErrUnknown, plain(cause), "the channel was lost before the broker's confirm")
	case errors.Is(kind, delayer.ErrUnroutable) && !req.msg.Direct: // an exchange of ours is gone
		return c.fail(kind, &reason{text: plain(cause).Error(), err: ErrReturned}, "")
	}
	return c.fail(kind, plain(cause), hint)
}

// settle cleans up after a caller who has left. The slot is free once the message is confirmed or
// its channel is lost; one of a pool also when the message is given up, and the channel with it.
// The first message to a destination is alone on its channel: without a confirm nothing else could
// be published there until the connection is lost.
func (c *publisherChannel) settle(req *request, w writeResult) {
	if w.err == nil {
		var lost <-chan time.Time
		if c.pool != nil {
			lost = time.After(confirmWithin(len(req.msg.Message.Body)))
		}
		select {
		case <-w.confirm.Done():
		case <-lost:
			w.channel.replace()
		}
		w.channel.returned(req.msg.Message.Headers[delayer.Header])
		w.channel.settled()
	}
	c.release(req.slots)
}

// run opens a channel and serves it until it is lost or replaced, again and again.
func (c *publisherChannel) run() {
	defer close(c.done)
	for lost := false; c.ctx.Err() == nil; {
		o, err := c.open()
		if err != nil {
			c.refuse(err)
			lost = true
			continue
		}
		if lost {
			c.onReset()
		}
		c.accepts.Store(false) // its exchange may be gone
		if lost = !c.serve(o); !lost {
			c.retiring.Go(o.retire)
		}
	}
}

func (c *publisherChannel) open() (*openChannel, error) {
	ch, socket, err := c.conn.channel(c.ctx)
	if err != nil {
		return nil, err
	}
	o := newOpenChannel(ch, socket, cap(c.slots))
	if err := ch.Confirm(waitForAnswer); err != nil {
		return nil, err
	}
	return o, nil
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods

// refuse answers one request while there is no channel, or waits a moment.
func (c *publisherChannel) refuse(err error) {
	if req := c.first; req != nil {
		c.first = nil
		req.answer(c.fail(delayer.ErrNotSent, err, ""))
	}
	select {
	case <-c.ctx.Done():
	case <-time.After(firstPause):
	case req := <-c.requests:
		req.answer(c.fail(delayer.ErrNotSent, err, ""))
	}
}

// serve writes requests to the channel until it is lost or not needed any more. alive is false if
// it was lost. What waits is written together, and what comes within [gatherFor]. While the broker
// blocks the connection it takes no request: one that is not sent can still be withdrawn.
func (c *publisherChannel) serve(o *openChannel) (alive bool) {
	defer o.gathering.end()
	for {
		state, changed := c.conn.now()
		requests := c.requests
		if state.blocked {
			requests = nil
		}
		for same := true; same; {
			var req *request
			if !state.blocked {
				req, c.first = c.first, nil
			}
			if req == nil {
				if len(requests) == 0 && o.gathering.on {
					runtime.Gosched() // whoever is about to publish goes along
				}
				var late <-chan time.Time
				if len(requests) == 0 {
					late = o.gathering.idle(o.unconfirmed())
				}
				select {
				case <-late:
				case req = <-requests:
				case <-changed:
					same = false
				case <-o.closed:
					c.report(o)
					return false
				case <-o.renew:
					return true
				case <-c.ctx.Done():
					return true
				}
			}
			switch {
			case req == nil || c.give(o, req):
			case o.ch.IsClosed():
				<-o.closed
				c.report(o)
				return false
			default:
				return true
			}
		}
	}
}

// give writes a request. It is false if the next channel has to: there it comes before those that
// came later.
func (c *publisherChannel) give(o *openChannel, req *request) bool {
	if o.ch.IsClosed() || o.isReplaced() {
		c.first = req
		return false
	}
	o.gathering.begin()
	c.write(o, req)
	return true
}

// report logs the loss of a channel, unless its connection logs it or it concerns only callers who
// get the error.
func (c *publisherChannel) report(o *openChannel) {
	var amqpErr *amqp091.Error
	if c.ctx.Err() == nil && c.pool == nil && errors.As(o.cause, &amqpErr) && amqpErr.Server && amqpErr.Recover {
		c.conn.log.Warn("publishing channel lost", "error", plain(o.cause))
	}
}

const notImmediate = false

func (c *publisherChannel) write(o *openChannel, req *request) {
	if before := req.msg.Before; !before.IsZero() && time.Now().After(before) {
		req.answer(c.fail(delayer.ErrNotSent, ErrStale, "the broker blocks publishers"))
		return
	}
	if decided := req.msg.Decided; !decided.IsZero() && o.gathering.wire.made.After(decided) {
		req.answer(c.fail(delayer.ErrNotSent, ErrStale, "the connection was lost"))
		return
	}
	var ok bool
	if c.body, ok = req.take(c.body); !ok {
		return // the caller left and freed the slot
	}
	o.begin()
	confirm, err := o.ch.PublishWithDeferredConfirm(req.msg.Exchange, req.msg.Key, !req.msg.Optional, notImmediate, req.msg.Message)
	if err != nil {
		o.settled()
	}
	switch {
	case err == nil:
		if req.msg.Written != nil {
			req.msg.Written()
		}
		req.written <- writeResult{confirm: confirm, channel: o}
	case errors.Is(err, amqp091.ErrClosed):
		req.written <- writeResult{err: c.fail(delayer.ErrNotSent, plain(err), "the connection was lost before the message was sent")}
	default: // part of it may be on the wire
		req.written <- writeResult{err: c.fail(delayer.ErrUnknown, plain(err), "the connection was lost while the message was sent")}
	}
	if cap(c.body) > keptBody {
		c.body = nil
	}
}

// keptBody is the largest buffer that a channel keeps for the next body.
const keptBody = 1 << 20
