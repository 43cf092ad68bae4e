package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// window is how many messages of a lane may be unconfirmed at a time. A session's channel for returns is
// as large, so that amqp091-go never has to wait for us: it would stall and then drop the event.
const window = 1024

// A lane is one publishing channel with the one goroutine that writes to it. Writing in a goroutine of
// its own is what lets Publish obey its ctx: a write into a full socket cannot be called off.
type lane struct {
	backend string
	conn    *Conn
	log     *slog.Logger
	onReset func()

	requests chan *request
	slots    chan struct{}

	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{}
	retiring sync.WaitGroup // sessions that another has replaced
}

// A request goes from Publish to the lane's goroutine, which answers on taken.
type request struct {
	msg   Publishing
	phase atomic.Int32 // queued → sending or withdrawn
	taken chan ticket
}

const (
	queued int32 = iota
	sending
	withdrawn
)

// A ticket is what a message that was handed to amqp091-go waits with, or why it was not.
type ticket struct {
	confirm *amqp091.DeferredConfirmation
	session *session
	err     *delayer.Error
}

func newLane(backend string, conn *Conn, onReset func()) *lane {
	l := &lane{
		backend: backend, conn: conn, onReset: onReset, log: conn.log,
		requests: make(chan *request), slots: make(chan struct{}, window), done: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.run()
	return l
}

func (l *lane) fail(kind, cause error, hint string) *delayer.Error {
	return &delayer.Error{Op: "publish", Backend: l.backend, Kind: kind, Cause: cause, Hint: hint}
}

// publish hands the message to the lane's goroutine and waits for its confirm.
func (l *lane) publish(ctx context.Context, msg Publishing) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return l.fail(delayer.ErrNotSent, context.Cause(ctx), "the broker has not confirmed the messages before it")
	}
	req := &request{msg: msg, taken: make(chan ticket, 1)}
	select {
	case l.requests <- req:
	case <-ctx.Done():
		<-l.slots
		return l.fail(delayer.ErrNotSent, l.conn.gaveUp(ctx), "")
	case <-l.done:
		<-l.slots
		return l.fail(delayer.ErrClosed, nil, "")
	}
	var t ticket
	select {
	case t = <-req.taken:
	case <-ctx.Done():
		if req.phase.CompareAndSwap(queued, withdrawn) {
			<-l.slots
			return l.fail(delayer.ErrNotSent, l.conn.gaveUp(ctx), "")
		}
		go l.settle(req, ticket{})
		return l.fail(delayer.ErrUnknown, context.Cause(ctx), "ctx ended while the message was being written")
	}
	if t.err != nil {
		<-l.slots
		return t.err
	}
	select {
	case <-t.confirm.Done():
		<-l.slots
		defer t.session.unsure.Done()
		return l.outcome(t, req)
	case <-ctx.Done():
		go l.settle(req, t)
		return l.fail(delayer.ErrUnknown, context.Cause(ctx), "ctx ended before the broker's confirm")
	}
}

// outcome reads a confirm that has come. amqp091-go resolves it as a nack when the channel dies, and
// marks the channel closed before.
func (l *lane) outcome(t ticket, req *request) error {
	if t.confirm.Acked() {
		if ret, ok := t.session.returned(req.msg.Message.Headers[delayer.Header]); ok {
			return l.fail(delayer.ErrUnroutable, returnedError(ret), "")
		}
		return nil
	}
	if t.session.ch.IsClosed() {
		return l.fail(delayer.ErrUnknown, t.session.cause(), "the channel was lost before the broker's confirm")
	}
	t.session.nacked()
	return l.fail(delayer.ErrRefused, errors.New("nack"), "is the waiting queue full, or without a majority of its replicas?")
}

// settle cleans up after a caller who has left: the slot is free only once the message is confirmed or
// its channel is dead.
func (l *lane) settle(req *request, t ticket) {
	if t.confirm == nil {
		t = <-req.taken
	}
	if t.err == nil {
		<-t.confirm.Done()
		t.session.returned(req.msg.Message.Headers[delayer.Header])
		t.session.unsure.Done()
	}
	<-l.slots
}

// run opens a session, serves it until it dies or is doubted, and again.
func (l *lane) run() {
	defer close(l.done)
	for lost := false; l.ctx.Err() == nil; {
		s, err := l.open()
		if err != nil {
			l.refuse(err)
			lost = true
			continue
		}
		if lost {
			l.onReset()
		}
		if lost = !l.serve(s); !lost {
			l.retiring.Go(s.retire)
		}
	}
}

func (l *lane) open() (*session, error) {
	ch, err := l.conn.Channel(l.ctx)
	if err != nil {
		return nil, err
	}
	s := newSession(ch)
	if err := ch.Confirm(waitForAnswer); err != nil {
		return nil, err
	}
	return s, nil
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods

// refuse answers one request, or waits a moment, while the broker refuses us.
func (l *lane) refuse(err error) {
	select {
	case <-l.ctx.Done():
	case <-time.After(firstPause):
	case req := <-l.requests:
		l.answer(req, ticket{err: l.fail(delayer.ErrNotSent, err, "")})
	}
}

// serve writes requests to the session until it dies, and then returns false, or until it is doubted. While the broker
// blocks the connection it takes none: what is not sent can still be withdrawn.
func (l *lane) serve(s *session) (alive bool) {
	for {
		state, changed := l.conn.now()
		requests := l.requests
		if state.blocked {
			requests = nil
		}
		for same := true; same; {
			select {
			case req := <-requests:
				l.send(s, req)
			case <-changed:
				same = false
			case <-s.dead:
				if l.ctx.Err() == nil {
					l.log.Warn("publishing channel lost", "error", s.cause())
				}
				return false
			case <-s.doubt:
				return true
			case <-l.ctx.Done():
				return false
			}
		}
	}
}

const notImmediate = false

func (l *lane) send(s *session, req *request) {
	if !req.phase.CompareAndSwap(queued, sending) {
		return // withdrawn: its caller has freed the slot
	}
	s.unsure.Add(1)
	confirm, err := s.ch.PublishWithDeferredConfirm(req.msg.Exchange, req.msg.Key, !req.msg.Optional, notImmediate, req.msg.Message)
	if err != nil {
		s.unsure.Done()
	}
	switch {
	case err == nil:
		req.taken <- ticket{confirm: confirm, session: s}
	case errors.Is(err, amqp091.ErrClosed):
		req.taken <- ticket{err: l.fail(delayer.ErrNotSent, plain(err), "the connection was lost before the message was sent")}
	default: // part of it may be on the wire
		req.taken <- ticket{err: l.fail(delayer.ErrUnknown, plain(err), "the connection was lost while the message was sent")}
	}
}

func (l *lane) answer(req *request, t ticket) {
	if req.phase.CompareAndSwap(queued, sending) {
		req.taken <- t
	}
}
