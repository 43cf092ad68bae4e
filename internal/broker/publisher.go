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

// drainTimeout bounds how long Close waits for the confirms of messages on their way.
const drainTimeout = 10 * time.Second

// A Publishing is one message with its address. Its headers must carry [delayer.Header]: a returned
// message is recognised by the value of that header.
type Publishing struct {
	Exchange, Key string
	Optional      bool // not mandatory: nil then does not say that a queue took it
	Message       amqp091.Publishing
}

// Publisher publishes with confirms, and mandatory unless a message says otherwise. It is safe for concurrent use.
type Publisher struct {
	backend string
	lanes   []*lane
	direct  *lane // for exchanges that are not ours: an error there closes no channel of the others

	mu      sync.Mutex
	turn    int
	closed  bool
	pending sync.WaitGroup
}

// NewPublisher publishes over conns, which it owns from now on, one channel on each. onReset is called, from a goroutine of the
// Publisher's, each time a channel is opened again after it was lost: what was declared may be gone.
func NewPublisher(backend string, onReset func(), conns ...*Conn) *Publisher {
	p := &Publisher{backend: backend}
	for _, conn := range conns {
		p.lanes = append(p.lanes, newLane(backend, conn, onReset))
	}
	p.direct = newLane(backend, conns[0], func() {})
	return p
}

// Publish returns nil once the broker has confirmed the message. The error's kind is ErrNotSent,
// ErrUnroutable (the message was returned), ErrRefused (a nack), ErrUnknown or ErrClosed; it carries no
// destination.
func (p *Publisher) Publish(ctx context.Context, msg Publishing) error {
	return p.publish(ctx, msg, nil)
}

// PublishDirect is Publish to an exchange that is not ours: the broker closes the channel where it does
// not exist or the user may not write to it, and no other message shall be lost sight of for that.
func (p *Publisher) PublishDirect(ctx context.Context, msg Publishing) error {
	return p.publish(ctx, msg, p.direct)
}

func (p *Publisher) publish(ctx context.Context, msg Publishing, l *lane) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return p.fail(delayer.ErrClosed, nil)
	}
	p.pending.Add(1)
	if l == nil {
		p.turn++
		l = p.lanes[p.turn%len(p.lanes)]
	}
	p.mu.Unlock()
	defer p.pending.Done()
	if err := context.Cause(ctx); err != nil {
		return p.fail(delayer.ErrNotSent, err)
	}
	return l.publish(ctx, msg)
}

func (p *Publisher) fail(kind, cause error) error {
	return &delayer.Error{Op: "publish", Backend: p.backend, Kind: kind, Cause: cause}
}

// Close refuses new messages, waits for those on their way for at most ten seconds, closes the
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
	lanes := append([]*lane{p.direct}, p.lanes...)
	for _, l := range lanes {
		l.cancel()
	}
	for _, l := range lanes {
		l.conn.Close() // also ends a write into a full socket
		<-l.done
		l.retiring.Wait()
	}
	<-drained
}

// ErrReturned is in the chain of the error for a message that no queue took.
var ErrReturned = errors.New("returned by the broker")

func returnedError(r amqp091.Return) error {
	return &reason{text: fmt.Sprintf("returned: %d %s", r.ReplyCode, r.ReplyText), err: ErrReturned}
}
