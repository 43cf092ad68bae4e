package delivery

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

const (
	refusals = 6 // attempts to send a message to a destination that certainly did not take it, in half a minute
	copies   = 2 // attempts of which each may have stored a copy, a minute apart
)

// An action is what to do with a message.
type action int

const (
	keep action = iota // an operator must look at it
	wait               // it has not waited long enough: publish it again with the remaining delay
	send               // it is due: publish it to its destination
)

var outcomes = [...]delayer.Outcome{keep: delayer.KeptUnroutable, wait: delayer.SentBack, send: delayer.SentOn}

type letter struct {
	*amqp091.Delivery
	envelope  message.Envelope
	remaining time.Duration
	known     bool // the envelope and what remains are
	action    action
}

func (l *letter) place() string { return Place(l.envelope.Exchange, l.RoutingKey) }

// settle moves a message and then acknowledges it. If moving fails it tries again, with a growing
// pause.
func (m *Mover) settle(ctx context.Context, d *amqp091.Delivery) {
	l := m.read(d)
	if l.action != send && l.envelope.ID != "" { // if it goes to a destination that is gone, it misses no binding
		m.fix(ctx, l)
	}
	if l.action == wait {
		pause, _ := m.again.Wait(l.envelope.ID, time.Now())
		if !m.pause(ctx, pause) {
			return
		}
		m.again.Failed(l.envelope.ID, time.Now())
	}
	for failed, unsure := 0, 0; ; {
		done, err := m.move(ctx, l)
		if err == nil {
			_ = d.Ack(false) // fails only if the channel is lost
			if tell := m.cfg.Observer.Misrouted; tell != nil {
				tell(delayer.MisroutedEvent{
					Backend: m.cfg.Destinations.backend, Exchange: l.envelope.Exchange, Key: l.RoutingKey, Outcome: outcomes[done],
				})
			}
			if done == send {
				m.fix(ctx, l)
			}
			return
		}
		failed++
		again, over := pace.Doubled(firstPause, longestPause, failed), false
		switch l.failed(err) {
		case refused:
			over = failed >= refusals
		case perhapsStored:
			unsure++
			again, over = longestPause, unsure >= copies
		}
		if over && l.action != keep { // it is kept instead, soon
			m.refusing.Failed(l.place(), time.Now())
			l.action, again = keep, firstPause
		}
		if l.failed(err) != nothingStored {
			m.warn("cannot move a misrouted message; it is tried again", "message", l.envelope.ID, "again_in", again, "error", err)
		}
		if !m.pause(ctx, again) {
			return
		}
	}
}

// A failure says what an attempt to move a message has left.
type failure int

const (
	nothingStored failure = iota // and the cause does not lie in the message or its destination
	refused                      // nothing is stored
	perhapsStored                // one queue of several refused it, or the broker did not answer
)

// failed classifies the error of an attempt. One queue alone can take a message for the default
// exchange without CC, so a nack says that it is not there.
func (l *letter) failed(err error) failure {
	one := l.action == send && l.envelope.Exchange == "" && len(message.Copies(l.Headers)) == 0
	switch {
	case errors.Is(err, delayer.ErrNotSent), errors.Is(err, delayer.ErrConflict):
		return nothingStored
	case errors.Is(err, delayer.ErrUnknown) && !(one && errors.Is(err, delayer.ErrRefused)):
		return perhapsStored
	}
	return refused
}

// pause returns false if the message must be returned to the queue.
func (m *Mover) pause(ctx context.Context, d time.Duration) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(m.ctx, stop)()
	return d == 0 && ctx.Err() == nil || pace.Sleep(ctx, d) == nil
}

// read decides what to do with a message.
func (m *Mover) read(d *amqp091.Delivery) *letter {
	l := &letter{Delivery: d}
	var err error
	if l.envelope, err = delayer.ParseHeader(d.Headers); err == nil {
		l.remaining, l.known = m.cfg.Rules.Remaining(l.envelope, d.Headers)
	}
	if _, died := d.Headers["x-death"]; !died && slices.Contains(m.cfg.Releasing, d.Exchange) {
		l.remaining = 0 // a consumer has published it there again, and without x-death
	}
	by := append([]string{m.stage.Exchange(), m.stage.Exchanges(), l.envelope.Exchange}, m.cfg.Delivering...)
	switch {
	case !l.known, message.Owns(m.stage.prefix, cmp.Or(l.envelope.Exchange, d.RoutingKey)), delivered(d.Headers, by...):
		l.action = keep
	case l.remaining > 0:
		l.action = wait
	default:
		l.action = send
	}
	return l
}

// move makes one attempt. nil means that the message is stored elsewhere; done says where.
func (m *Mover) move(ctx context.Context, l *letter) (done action, err error) {
	ctx, cancel := broker.Attempt(ctx, len(l.Body))
	defer cancel()
	refusing, _ := m.refusing.Wait(l.place(), time.Now())
	switch {
	case l.action == wait:
		err = m.cfg.Delay(ctx, l.envelope, l.RoutingKey, l.remaining, message.Again(l.Delivery, m.user()))
	case l.action == send && refusing == 0:
		// First: publishing to a missing exchange costs the channel.
		var there Presence
		if there, err = Exists(ctx, m.cfg.Control, l.envelope.Exchange, l.RoutingKey); err != nil {
			return send, err
		}
		err = delayer.ErrUnroutable
		if there != Gone {
			again := message.Again(l.Delivery, m.user())
			err = m.stage.Send(ctx, m.cfg.Control, m.cfg.Publisher, l.envelope.Exchange, l.RoutingKey, again)
		}
	default:
		return keep, m.keep(ctx, l)
	}
	// Another attempt cannot help: the destination is gone, or routes the message nowhere, or this
	// configuration has no such delay.
	hopeless := errors.Is(err, delayer.ErrUnroutable) || errors.Is(err, delayer.ErrOutOfRange) || errors.Is(err, delayer.ErrInvalid)
	if hopeless && !(l.action == wait && errors.Is(err, broker.ErrReturned)) { // a queue of ours is gone then
		l.action = keep
		return keep, m.keep(ctx, l)
	}
	return l.action, err
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
	if broker.Code(err) == amqp091.NotFound || errors.Is(err, broker.ErrReturned) {
		m.redeclare(ctx)
	}
	return err
}

func (m *Mover) user() string { return m.cfg.Control.Conn().User() }

// A gap is what bindings were missing from: a waiting queue, or the path to a destination, for keys
// of so many words; or the stage, if it names neither.
type gap struct {
	queue       string
	destination string // as Place names it
	words       int
}

// fix makes the bindings by which a message should have got from its last waiting queue to its
// destination: another process that declares our exchanges again does not know what this one has
// bound on use. It makes no others: thousands would slow all who publish. If it fails, the next
// message tries again after five seconds.
func (m *Mover) fix(ctx context.Context, l *letter) {
	deaths := message.Deaths(l.Headers)
	if len(deaths) == 0 || deaths[0].Queue == "" {
		return
	}
	queue, words := deaths[0].Queue, message.Words(l.RoutingKey)
	due := func(g gap) bool {
		now := time.Now()
		wait, _ := m.fixed.Wait(g, now)
		if wait == 0 {
			m.fixed.Failed(g, now)
		}
		return wait == 0
	}
	var err error
	if l.envelope.Exchange != "" && due(gap{}) {
		err = m.cfg.Declare(ctx, topology.Plan{Bindings: m.stage.Plan().Bindings})
	}
	if err == nil && m.cfg.Leaving != nil && due(gap{queue: queue, words: words}) {
		err = m.cfg.Declare(ctx, m.cfg.Leaving(queue, words))
	}
	if err == nil && due(gap{destination: l.place(), words: words}) {
		err = m.cfg.Destinations.BindAgain(ctx, l.envelope.Exchange, l.RoutingKey)
	}
	if err != nil {
		m.failed("cannot make the bindings that a message has missed", err)
	}
}

// Send publishes a message that is due straight to its destination. The broker refuses what a
// client publishes to an internal exchange. So what an exchange refuses is sent through a binding,
// as a delayed message is. The errors are those of [broker.Publisher.PublishDirect].
func (s Stage) Send(ctx context.Context, control control, p publisher, exchange, key string, msg amqp091.Publishing) error {
	refused := p.PublishDirect(ctx, broker.Publishing{Exchange: exchange, Key: key, Message: msg})
	if exchange == "" || broker.Code(refused) != amqp091.AccessRefused {
		return refused
	}
	to := Key(exchange, "", message.Words(key))
	err := control.Do(ctx, func(ch *amqp091.Channel) error { return objects.Bind(ch, s.bindings(exchange, "", to)[0]) })
	if err != nil {
		return refused // the user may not write there at all
	}
	msg.Headers = maps.Clone(msg.Headers)
	own, _ := msg.Headers["BCC"].([]any)
	msg.Headers["BCC"] = append(slices.Clone(own), to)
	return p.PublishDirect(ctx, broker.Publishing{Exchange: s.Exchanges(), Key: key, Message: msg})
}
