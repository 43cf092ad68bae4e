package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// drainTimeout bounds how long Close waits for confirms.
const drainTimeout = 10 * time.Second

// A Publishing is one message with its address. Its headers must carry [delayer.Header]: a returned
// message is recognised by the value of that header.
type Publishing struct {
	Exchange, Key string
	Optional      bool   // not mandatory: nil does not mean that a queue has it
	Direct        bool   // the exchange is not ours, see PublishDirect
	Stream        string // the stream that the message goes to, and to no other queue; empty for others
	Sole          bool   // one quorum queue can take it and no other queue: a nack guarantees that it was not stored
	Message       amqp091.Publishing

	// Written is called, unless it is nil, once messages that are published from now on come after
	// this one. It may be called when Publish has returned, and is not called for a message that
	// was not sent.
	Written func()

	// Before is when the message must have been written, zero where that does not matter. A message
	// that waited for longer, because the broker blocks publishers, is not sent (ErrStale).
	Before time.Time
}

// Publisher publishes with confirms, and mandatory unless a message says otherwise. It is safe for
// concurrent use.
type Publisher struct {
	backend  string
	channels []*publisherChannel // one on each connection
	direct   *publisherChannel   // for exchanges that are not ours: their errors close only this channel
	alone    *publisherChannel   // for one message at a time that the broker may not accept
	proof    proof

	mu      sync.Mutex
	streams map[string]*publisherChannel // by the stream that they write to
	turn    int
	closed  bool
	pending sync.WaitGroup
}

// NewPublisher returns a Publisher with one channel on each of conns, which it owns from now on.
// onReset is called, from a goroutine of the Publisher, each time a channel is opened again after
// it was lost: declared objects may be gone.
func NewPublisher(backend string, onReset func(), conns ...*Conn) *Publisher {
	p := &Publisher{backend: backend, streams: map[string]*publisherChannel{}}
	reset := func() {
		p.proof.reset()
		onReset()
	}
	for _, conn := range conns {
		p.channels = append(p.channels, newPublisherChannel(backend, conn, window, reset))
	}
	p.direct = newPublisherChannel(backend, conns[0], window, func() {})
	p.alone = newPublisherChannel(backend, conns[0], 1, func() {})
	return p
}

// Publish returns nil once the broker has confirmed the message. The error's kind is ErrNotSent,
// ErrUnroutable (the message was returned), ErrRefused (a nack; it is ErrUnknown too unless the message
// is Sole), ErrInvalid (the broker does not accept the message), ErrUnknown or ErrClosed; it carries no
// destination. After it returns, msg is not read any more.
func (p *Publisher) Publish(ctx context.Context, msg Publishing) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.pending.Done()
	return p.publish(ctx, msg, p.shared(msg.Direct))
}

// PublishDirect is Publish to an exchange that is not ours. The broker closes the channel if it
// does not exist (ErrUnroutable) or the user may not write to it (ErrAccess). So the message has a
// channel without others, whose outcome would be unknown.
func (p *Publisher) PublishDirect(ctx context.Context, msg Publishing) error {
	msg.Direct = true
	return p.Publish(ctx, msg)
}

// enter counts a message as pending, which Close waits for, unless the Publisher is closed or ctx
// has ended.
func (p *Publisher) enter(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.fail(delayer.ErrClosed, nil)
	}
	if err := context.Cause(ctx); err != nil {
		return p.fail(delayer.ErrNotSent, err)
	}
	p.pending.Add(1)
	return nil
}

// shared returns the channel for a message that may be on one with others: the next in turn.
func (p *Publisher) shared(direct bool) *publisherChannel {
	if direct {
		return p.direct
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
	return p.channels[p.turn%len(p.channels)]
}

// publish publishes a pending message, on the shared channel if the broker will accept it.
func (p *Publisher) publish(ctx context.Context, msg Publishing, shared *publisherChannel) error {
	channel, err := p.acquire(ctx, msg, shared)
	if err != nil {
		return err
	}
	if channel == p.alone {
		msg.Written = nil // others overtake it until it is confirmed
	}
	err = channel.publish(ctx, msg)
	p.proof.learn(msg, err)
	return err
}

// acquire returns the channel for a message, with a slot: its stream's, the shared one, or the one
// where the message is alone. While it waits for the latter, another message may prove that the shared
// one will do.
func (p *Publisher) acquire(ctx context.Context, msg Publishing, shared *publisherChannel) (*publisherChannel, error) {
	if msg.Stream != "" {
		channel, err := p.stream(msg.Stream)
		if err != nil {
			return nil, err
		}
		return channel, channel.acquire(ctx)
	}
	if p.proof.covers(msg) {
		return shared, shared.acquire(ctx)
	}
	if err := p.alone.acquire(ctx); err != nil {
		return nil, err
	}
	if limit, is := p.proof.oversize(msg); is {
		p.alone.release()
		return nil, p.fail(delayer.ErrInvalid, fmt.Errorf("the body has %d bytes, the broker accepts %d (max_message_size)", len(msg.Message.Body), limit))
	}
	if p.proof.covers(msg) {
		p.alone.release()
		return shared, shared.acquire(ctx)
	}
	return p.alone, nil
}

func (p *Publisher) fail(kind, cause error) error {
	return &delayer.Error{Op: "publish", Backend: p.backend, Kind: kind, Cause: cause}
}

// Close refuses new messages, waits at most ten seconds for outstanding confirms, closes the
// connections and ends the goroutines.
func (p *Publisher) Close() {
	p.mu.Lock()
	p.closed = true
	all := slices.Collect(maps.Values(p.streams))
	p.mu.Unlock()
	drained := make(chan struct{})
	go func() { p.pending.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(drainTimeout):
	}
	all = append(all, p.alone, p.direct)
	all = append(all, p.channels...)
	for _, c := range all {
		c.cancel()
	}
	for _, c := range all {
		c.conn.Close() // also ends a write into a full socket
		<-c.done
		c.retiring.Wait()
	}
	<-drained
}

// ErrStale is in the chain of the error for a message that was not sent since it was not written
// Before its time.
var ErrStale = errors.New("it could not be written in time")

// ErrReturned is in the chain of the error for a message that no queue took.
var ErrReturned = errors.New("returned by the broker")

func returnedError(r amqp091.Return) error {
	return &reason{text: fmt.Sprintf("returned: %d %s", r.ReplyCode, r.ReplyText), err: ErrReturned}
}

// stream returns the channel for the messages to a stream. Streams have channels of their own:
//
// A RabbitMQ channel numbers its messages twice: all of them, and those to each stream. When a stream
// gets another leader, RabbitMQ 3.10 to 3.13 sends those without a confirm again under the first number
// (rabbit_stream_queue:resend_all/1; mended in 4.0). The new leader then takes the next messages for
// duplicates, as far as the two numbers differ: it confirms them and stores nothing. On a channel
// that writes to one stream only they do not differ. A message that was returned has the first
// number alone, so the channel is replaced. Not seen is a stream that was deleted and declared again
// between two messages, and whose leader then changes.
func (p *Publisher) stream(name string) (*publisherChannel, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, p.fail(delayer.ErrClosed, nil)
	}
	c, known := p.streams[name]
	if !known {
		c = newPublisherChannel(p.backend, p.direct.conn, window, func() {})
		c.stream = true
		p.streams[name] = c
	}
	return c, nil
}
