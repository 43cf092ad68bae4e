package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// drainTimeout bounds how long Close waits for confirms.
const drainTimeout = 10 * time.Second

const (
	confirmFor = 30 * time.Second
	slowest    = 1 << 20 // bytes a second
)

// confirmWithin is how long the confirm of so many bytes is waited for. One message may have 128
// MiB, and what is given up before it has passed a slow link never arrives, however often it is
// tried.
func confirmWithin(bytes int) time.Duration {
	return confirmFor + time.Duration(bytes)*time.Second/slowest
}

// Attempt returns a context for one attempt to publish messages whose bodies have so many bytes. It
// ends after half a minute, and a second more for each MiB.
func Attempt(ctx context.Context, bytes int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, confirmWithin(bytes))
}

// A Publishing is one message with its address. A returned message is recognised by
// [delayer.Header], which is unique. Messages without it that are on their way to the same exchange
// at the same time, with the same key, ids and size, are not told apart: as many of them are
// unroutable as were returned.
type Publishing struct {
	Exchange, Key string
	Optional      bool   // not mandatory: nil does not mean that a queue has it
	Direct        bool   // the exchange is not ours, see PublishDirect
	Sole          bool   // one quorum queue can take it and no other queue: a nack guarantees that it was not stored
	Order         uint64 // messages that have the same one use one connection; 0: all in turn
	Message       amqp091.Publishing

	// Apart names the message's destination if that is not known to answer: it has a channel of its
	// own, as that of a direct message. RabbitMQ waits up to 65 s for the first message of a
	// channel to a quorum queue, and does nothing else of that channel meanwhile
	// (rabbit_fifo_client:enqueue/4).
	Apart string

	// Written is called, unless it is nil, once messages that are published from now on come after
	// this one. It may be called when Publish has returned, and is not called for a message that
	// was not sent.
	Written func()

	// Fill makes the message when it is about to be written, unless it is nil: until then what goes
	// into it may change. false: there is nothing to be sent. Message has no body before.
	Fill func(*amqp091.Publishing) bool

	// Proof must hold of the connection to which the message is written, unless it is nil.
	Proof Proof
}

// A Proof says whether what a message needs of the broker holds on a connection. The goroutine that
// writes asks it before each message. With an error nothing of the message is sent.
type Proof interface {
	// Known returns what Prove has said of a connection, if that still counts.
	Known(*amqp091.Connection) (known bool, err error)
	// Prove finds out. It uses channels of its own.
	Prove(context.Context, *amqp091.Connection) error
}

// Publisher publishes with confirms, and mandatory unless a message says otherwise. It is safe for
// concurrent use.
type Publisher struct {
	backend  string
	channels []*publisherChannel // one on each connection, for exchanges of ours
	pool     *pool               // for other exchanges, and for messages that the broker may not accept

	opened atomic.Int64 // channels for exchanges of ours, ever

	// largest is the size of the largest body that was confirmed. The broker closes a channel because
	// of a body above max_message_size, which AMQP does not tell, and the outcome of the others on
	// that channel is then unknown. So a message with a larger body is alone on its channel.
	largest atomic.Int64

	mu      sync.Mutex
	turn    uint64
	closed  bool
	pending sync.WaitGroup
}

// PublisherChannels are those that a Publisher opens on its first connection at once.
const PublisherChannels = 2

// NewPublisher returns a Publisher with one channel on each of conns, which it owns from now on.
// onReset is called, from a goroutine of the Publisher, each time a channel is opened again after
// it was lost: declared objects may be gone.
func NewPublisher(backend string, onReset func(), conns ...*Conn) *Publisher {
	p := &Publisher{backend: backend}
	reset := func() {
		p.largest.Store(0) // another node of the cluster may have another configuration
		onReset()
	}
	for _, conn := range conns {
		p.channels = append(p.channels, p.start(&publisherChannel{conn: conn, onReset: reset}, window))
	}
	p.pool = newPool(p, conns[0])
	return p
}

func (p *Publisher) start(c *publisherChannel, window int) *publisherChannel {
	c.publisher = p
	c.submitted, c.slots = make(chan *Pending, window), make(chan struct{}, window)
	c.filling, c.done = make(chan struct{}, 1), make(chan struct{})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.run()
	return c
}

// Publish returns nil once the broker has confirmed the message. The error's kind is ErrNotSent,
// ErrUnroutable (the message was returned), ErrRefused (a nack; it is ErrUnknown too unless the
// message is Sole), ErrInvalid (the broker does not accept the message), ErrUnknown or ErrClosed;
// it carries no destination. After it returns, msg is not read any more.
func (p *Publisher) Publish(ctx context.Context, msg Publishing) error {
	pending, err := p.Submit(ctx, msg)
	if err != nil {
		return err
	}
	return pending.Wait(ctx)
}

// PublishDirect is Publish to an exchange that is not ours. The broker closes the channel if it
// does not exist (ErrUnroutable) or the user may not write to it (ErrAccess), and its queues may not
// confirm for long. So messages share a channel only with those to the same destination (see pool.go).
// One beyond the bounds of the pool waits until ctx ends (ErrNotSent).
func (p *Publisher) PublishDirect(ctx context.Context, msg Publishing) error {
	msg.Direct = true
	return p.Publish(ctx, msg)
}

// Submit hands a message over to be written, behind earlier ones of its channel. It waits while that
// has too many messages, or one that is alone. Its errors are those of Publish.
func (p *Publisher) Submit(ctx context.Context, msg Publishing) (*Pending, error) {
	if n := max(len(msg.Exchange), len(msg.Key)); n > 255 { // amqp091-go would close the connection
		return nil, p.fail(delayer.ErrInvalid, fmt.Errorf("a name of %d bytes, AMQP allows 255", n), "")
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, p.fail(delayer.ErrClosed, nil, "")
	}
	if err := context.Cause(ctx); err != nil {
		p.mu.Unlock()
		return nil, p.fail(delayer.ErrNotSent, err, "")
	}
	p.pending.Add(1)
	if msg.Order == 0 {
		p.turn++
		msg.Order = p.turn
	}
	p.mu.Unlock()
	m := spare.Get().(*Pending)
	m.publisher, m.msg, m.leaves, m.state, m.slots = p, msg, ctx.Done() != nil, queued, 1
	var err error
	if p.Alone(&msg) {
		err = m.borrow(ctx)
	} else {
		m.channel = p.channels[msg.Order%uint64(len(p.channels))]
		err = m.channel.enter(ctx, m.channel.slots)
	}
	if err != nil {
		p.pending.Done()
		return nil, err
	}
	select {
	case m.channel.submitted <- m:
		return m, nil
	case <-ctx.Done():
		err = p.fail(delayer.ErrNotSent, m.channel.conn.gaveUp(ctx), "")
	case <-m.channel.done:
		err = p.fail(delayer.ErrClosed, nil, "")
	}
	m.release()
	p.pending.Done()
	return nil, err
}

// Alone reports whether a message does not share a channel with those to other destinations, so
// that others may overtake it, and Submit may wait for long.
func (p *Publisher) Alone(msg *Publishing) bool {
	return msg.Direct || msg.Apart != "" || !p.Covers(len(msg.Message.Body))
}

// Crowded reports whether most of what may be unconfirmed of exchanges of ours is.
func (p *Publisher) Crowded() bool {
	return slices.ContainsFunc(p.channels, func(c *publisherChannel) bool { return len(c.slots) > cap(c.slots)*3/4 })
}

// Opened is how many channels for exchanges of ours have been opened: if there are more than before,
// a queue may have its first message again.
func (p *Publisher) Opened() int64 { return p.opened.Load() }

// Covers reports whether it is known that the broker takes a body of so many bytes.
func (p *Publisher) Covers(size int) bool { return int64(size) <= p.largest.Load() }

// accepted notes that the broker has taken a body of so many bytes.
func (p *Publisher) accepted(size int) {
	for known := p.largest.Load(); int64(size) > known; known = p.largest.Load() {
		if p.largest.CompareAndSwap(known, int64(size)) {
			return
		}
	}
}

func (p *Publisher) fail(kind, cause error, hint string) error {
	return &delayer.Error{Op: "publish", Backend: p.backend, Kind: kind, Cause: cause, Hint: hint}
}

// Connections returns those for exchanges of ours that are up.
func (p *Publisher) Connections() (up []*amqp091.Connection) {
	for _, c := range p.channels {
		if state, _ := c.conn.now(); state.conn != nil {
			up = append(up, state.conn)
		}
	}
	return up
}

// Close refuses new messages, waits at most ten seconds for outstanding confirms, closes the
// connections and ends the goroutines.
func (p *Publisher) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	drained := make(chan struct{})
	go func() { p.pending.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(drainTimeout):
	}
	all := append(p.pool.close(), p.channels...)
	for _, c := range all {
		c.cancel()
	}
	for _, c := range all {
		c.conn.Close() // also ends a write into a full socket
		c.ended()
	}
	p.pool.retired.Wait()
	<-drained
}

// ErrReturned is in the chain of the error for a message that no queue took.
var ErrReturned = errors.New("returned by the broker")
