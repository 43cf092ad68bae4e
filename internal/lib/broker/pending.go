package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// A Pending is a message that was submitted. It waits for its channel's goroutine to write it, and
// then for the broker's confirm.
type Pending struct {
	publisher *Publisher
	channel   *publisherChannel
	slots     int // of the channel: one, or all of them if the message is alone on it
	msg       Publishing
	leaves    bool // the caller may leave before the message is written, and change the body

	mu    sync.Mutex // held while the body is copied: a caller who leaves waits for it
	state pendingState

	written chan struct{} // receives once the message was written, or err is known
	open    *openChannel  // on which it was written
	confirm *amqp091.DeferredConfirmation
	err     error // why it was not written
}

type pendingState int

const (
	queued pendingState = iota
	taken
	withdrawn
)

// spare keeps Pendings for reuse: three allocations less a message.
var spare = sync.Pool{New: func() any { return &Pending{written: make(chan struct{}, 1)} }}

// borrow takes a channel of the pool for the message, and a slot of it. If the broker may close the
// channel because of the message, it takes all slots. The message is alone then, and no other is
// lost with it.
func (m *Pending) borrow(ctx context.Context) error {
	p, msg := m.publisher, &m.msg
	if !msg.Direct {
		msg.Written = nil // others overtake it until it is confirmed
	}
	c, err := p.pool.take(ctx, msg.destination())
	if err != nil {
		return err
	}
	m.channel, m.slots = c, 0
	if err = c.enter(ctx, c.filling); err == nil { // two that need all slots would wait for each other
		for err == nil && m.slots < cap(c.slots) && (m.slots == 0 || !c.covers(msg)) {
			if err = c.enter(ctx, c.slots); err == nil {
				m.slots++
			}
		}
		<-c.filling
	}
	if err != nil {
		m.release()
		return err
	}
	if c.covers(msg) { // those before it have proved that the broker takes it
		for ; m.slots > 1; m.slots-- {
			<-c.slots
		}
	}
	return nil
}

// release frees what a message has of its channel.
func (m *Pending) release() {
	for range m.slots {
		<-m.channel.slots
	}
	if m.channel.pool != nil {
		m.channel.pool.put(m.channel)
	}
}

// Wait returns what became of the message, as Publish does. A message that is not written by the
// time that ctx ends is not sent. Wait is called once, and the Pending not used after it.
func (m *Pending) Wait(ctx context.Context) error {
	p, c := m.publisher, m.channel
	defer p.pending.Done()
	select {
	case <-m.written:
	case <-ctx.Done():
		if m.withdraw() {
			m.release()
			return p.fail(delayer.ErrNotSent, c.conn.gaveUp(ctx), "")
		}
		select {
		case <-m.written:
		default:
			go func() { <-m.written; m.settle() }()
			return p.fail(delayer.ErrUnknown, context.Cause(ctx), "ctx ended while the message was being written")
		}
	case <-c.done:
		if m.withdraw() {
			m.release()
			return p.fail(delayer.ErrClosed, nil, "")
		}
		<-m.written
	}
	if m.err != nil {
		m.release()
		return m.err
	}
	select {
	case <-m.confirm.Done():
	case <-ctx.Done():
		select {
		case <-m.confirm.Done(): // select chooses at random where both are ready
		default:
			go m.settle()
			return p.fail(delayer.ErrUnknown, context.Cause(ctx), "ctx ended before the broker's confirm")
		}
	}
	o, acked := m.open, m.confirm.Acked()
	var err error
	if !acked && o.ch.IsClosed() {
		// When a channel dies, amqp091-go first marks it closed, then resolves its confirms as
		// nacks, and reports why a moment later.
		<-o.closed
		err = m.lost(o.cause)
	} else {
		p.accepted(len(m.msg.Message.Body))
		if !c.accepts.Load() {
			c.accepts.Store(true)
		}
		returned, isReturned := o.returned(&m.msg)
		switch {
		case !acked:
			o.nacked()
			err = m.refused()
		case isReturned:
			text := fmt.Sprintf("returned: %d %s", returned.ReplyCode, returned.ReplyText)
			err = p.fail(delayer.ErrUnroutable, &reason{text: text, err: ErrReturned}, "")
		}
	}
	o.settled()
	m.release()
	*m = Pending{written: m.written} // nobody else knows it any more
	spare.Put(m)
	return err
}

// lost is the error of a message whose channel was lost before its confirm.
func (m *Pending) lost(cause error) error {
	p := m.publisher
	hint, kind := refusal(cause)
	only := m.slots > 1 || m.open.sent.Load() == 1 // then the broker has closed the channel because of this message
	switch {
	case !only || kind == nil:
		return p.fail(delayer.ErrUnknown, plain(cause), "the channel was lost before the broker's confirm")
	case errors.Is(kind, delayer.ErrUnroutable) && !m.msg.Direct: // an exchange of ours is gone
		return p.fail(kind, &reason{text: plain(cause).Error(), err: ErrReturned}, "")
	}
	return p.fail(kind, plain(cause), hint)
}

// refused is the error of a message that the broker has nacked. One queue that refuses it is enough
// for that, and so is a classic queue whose process has died.
func (m *Pending) refused() error {
	if m.msg.Sole {
		return m.publisher.fail(delayer.ErrRefused, errors.New("nack"), "is the waiting queue full (max_length), or without a majority of its replicas? Publish again later")
	}
	cause := &reason{text: "nack, and another queue may have stored the message", err: delayer.ErrUnknown}
	return m.publisher.fail(delayer.ErrRefused, cause, "is a queue full, or without a majority of its replicas?")
}

// settle cleans up after a caller who has left. The slot is free once the message is confirmed or
// its channel is lost; one of a pool also when the message is given up, and the channel with it:
// the first message to a destination is alone, and nothing else could be published there.
func (m *Pending) settle() {
	if m.err == nil {
		var lost <-chan time.Time
		if m.channel.pool != nil {
			lost = time.After(confirmWithin(len(m.msg.Message.Body)))
		}
		select {
		case <-m.confirm.Done():
		case <-lost:
			m.open.replace()
		}
		m.open.returned(&m.msg)
		m.open.settled()
	}
	m.release()
}

// withdraw reports whether the message will not be sent, because the goroutine that writes had not
// taken it. In both cases the caller's body is not read any more.
func (m *Pending) withdraw() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == queued {
		m.state = withdrawn
	}
	return m.state == withdrawn
}

// fail ends a message that is not written, unless its caller has left.
func (m *Pending) fail(kind, cause error, hint string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != withdrawn {
		m.state, m.err = taken, m.publisher.fail(kind, cause, hint)
		m.written <- struct{}{}
	}
}
