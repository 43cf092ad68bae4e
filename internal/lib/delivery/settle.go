package delivery

import (
	"cmp"
	"context"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A letter is a message that is being settled.
type letter struct {
	*amqp091.Delivery
	facts
	envelope message.Envelope
	action   action
}

// settle moves a message and then acknowledges it. If moving fails it tries again, with a growing
// pause.
func (m *Mover) settle(ctx context.Context, d *amqp091.Delivery, came origin) {
	l := m.read(d, came)
	if l.action != send && l.envelope.ID != "" { // a message whose destination is gone misses no binding
		m.mend(ctx, l)
	}
	if l.action == wait && !m.pause(ctx, pauseFor(m.again.add(l.envelope.ID))) {
		return
	}
	for t := (tries{}); ; {
		done, err := m.move(ctx, l)
		if err == nil {
			_ = d.Ack(false) // fails only where the channel is lost
			m.tell(l, done)
			if done == send {
				m.mend(ctx, l)
			}
			return
		}
		how := l.failed(err)
		again, over := t.note(how)
		if how != transient {
			m.complain("cannot move a misrouted message; it is tried again", "message", l.envelope.ID, "again_in", again, "error", err)
		}
		if !m.pause(ctx, again) {
			return
		}
		if over && l.action != keep {
			m.refused.note(l.place())
			l.action = keep
		}
	}
}

// failed classifies the error of an attempt. One queue alone can take a message for the default
// exchange without CC, so a nack says that it is not there.
func (l *letter) failed(err error) failure {
	one := l.action == send && l.envelope.Exchange == "" && len(message.Copies(l.Headers)) == 0
	switch {
	case errors.Is(err, delayer.ErrNotSent), errors.Is(err, delayer.ErrConflict):
		return transient
	case errors.Is(err, delayer.ErrUnknown) && !(one && errors.Is(err, delayer.ErrRefused)):
		return unsure
	}
	return refused
}

// pause returns false if the message must be returned to the queue.
func (m *Mover) pause(ctx context.Context, d time.Duration) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(m.ctx, stop)()
	return sleep(ctx, d)
}

// read decides what to do with a message.
func (m *Mover) read(d *amqp091.Delivery, came origin) *letter {
	d = message.UnderUserKey(d)
	l := &letter{Delivery: d, facts: facts{came: came}}
	var err error
	if l.envelope, err = delayer.ParseHeader(d.Headers); err == nil {
		l.ours = m.cfg.Resend
		l.reserved = message.Owns(m.stage.prefix, cmp.Or(l.envelope.Exchange, d.RoutingKey))
		l.remaining, l.known = m.cfg.Rules.Remaining(l.envelope, d.Headers)
		l.delivered = delivered(d.Headers, m.leadsTo(l.envelope.Exchange)...)
		l.vouched = came == outage && m.cfg.Destinations.Vouches(l.envelope.Exchange, d.RoutingKey)
	}
	l.action = decide(l.facts)
	return l
}

// leadsTo are the exchanges by which messages come to the destinations behind an exchange.
func (m *Mover) leadsTo(exchange string) []string {
	return append([]string{m.stage.Exchange(), m.stage.Exchanges(), exchange}, m.cfg.Delivering...)
}

func (l *letter) place() string { return Place(l.envelope.Exchange, l.RoutingKey) }

// tell says what became of a message.
func (m *Mover) tell(l *letter, done action) {
	if m.cfg.Observer.Misrouted == nil {
		return
	}
	outcome := [...]delayer.Outcome{keep: delayer.KeptUnroutable, wait: delayer.SentBack, send: delayer.SentOn}[done]
	m.cfg.Observer.Misrouted(delayer.MisroutedEvent{
		Backend: m.cfg.Destinations.backend, Exchange: l.envelope.Exchange, Key: l.RoutingKey, Outcome: outcome,
	})
}

// move makes one attempt. nil means that the message is stored elsewhere; done says where.
func (m *Mover) move(ctx context.Context, l *letter) (done action, err error) {
	ctx, cancel := broker.Attempt(ctx, len(l.Body))
	defer cancel()
	switch {
	case l.action == wait:
		err = m.cfg.Delay(ctx, l.envelope, l.RoutingKey, l.remaining, message.Again(l.Delivery, m.user()))
	case l.action == send && !m.refused.fresh(l.place()):
		err = m.send(ctx, l)
	default:
		return keep, m.keep(ctx, l)
	}
	if hopeless(err) && !(l.action == wait && returned(err)) { // a queue of ours is gone then
		l.action = keep
		return keep, m.keep(ctx, l)
	}
	return l.action, err
}

// errGone: the destination does not exist.
var errGone = errors.New("the destination does not exist")

// hopeless reports whether another attempt cannot help: the destination is gone, or routes the
// message nowhere, or this configuration has no such delay.
func hopeless(err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, delayer.ErrUnroutable) || errors.Is(err, delayer.ErrOutOfRange) ||
		errors.Is(err, delayer.ErrInvalid)
}

// send publishes a message straight to its destination. It first checks that the destination
// exists: publishing to a missing exchange costs the channel.
func (m *Mover) send(ctx context.Context, l *letter) error {
	switch there, err := Exists(ctx, m.cfg.Control, l.envelope.Exchange, l.RoutingKey); {
	case err != nil:
		return err
	case there == Gone:
		return errGone
	}
	return m.stage.Send(ctx, m.cfg.Control, m.cfg.Publisher, l.envelope.Exchange, l.RoutingKey, message.Again(l.Delivery, m.user()))
}

// keep moves a message to the unroutable queue, for an operator.
func (m *Mover) keep(ctx context.Context, l *letter) error {
	if l.envelope.ID == "" {
		m.foreign.Lock()
		defer m.foreign.Unlock()
	}
	msg := message.Again(l.Delivery, m.user())
	if l.known {
		msg = message.Kept(l.Delivery, m.user(), l.envelope, l.remaining)
	}
	msg.Expiration = "" // it must stay there
	err := m.cfg.Publisher.Publish(ctx, broker.Publishing{Exchange: m.stage.Keep(), Key: l.RoutingKey, Message: msg})
	if err != nil {
		m.restore(ctx, err)
	}
	return err
}

func (m *Mover) user() string { return m.cfg.Control.Conn().User() }

// returned reports whether the broker could not route a message.
func returned(err error) bool { return errors.Is(err, broker.ErrReturned) }
