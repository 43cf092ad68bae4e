// Package engine is the publish path of every backend. It checks a message, binds its destination,
// asks the backend's Strategy where it waits, adds our header, and publishes it.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// Engine implements [delayer.Delayer] over a Strategy.
type Engine struct {
	delayer.NoTickets // controller, with slots, has its own answers

	settings Settings
	strategy Strategy
	limits   delayer.Limits
	bounds   message.Limits

	control   *broker.Control
	publisher *broker.Publisher
	dests     *delivery.Destinations
	submitter Submitter // nil for a strategy that is none
	keeper    *keeper.Keeper
	mover     *delivery.Mover // nil if this Delayer leaves misrouted messages to others

	batches atomic.Uint64 // so many parts of them

	Drained func() // called by Close once nothing is published any more, while there is the control connection; nil: nothing

	closing context.Context    // ends with Close
	stop    context.CancelFunc // ends closing, and with it the goroutines beside Publish
	running sync.WaitGroup
}

var _ delayer.Delayer = (*Engine)(nil)

// Limits implements [delayer.Delayer].
func (e *Engine) Limits() delayer.Limits {
	limits := e.limits
	limits.Tiers = slices.Clone(limits.Tiers) // the caller may change it
	return limits
}

// Keeper keeps the topology.
func (e *Engine) Keeper() *keeper.Keeper { return e.keeper }

// Control is the connection that does not publish.
func (e *Engine) Control() *broker.Control { return e.control }

// Publisher is what publishes.
func (e *Engine) Publisher() *broker.Publisher { return e.publisher }

// Close implements [delayer.Delayer].
func (e *Engine) Close() error {
	e.stop()
	e.running.Wait()
	if e.mover != nil {
		e.mover.Close()
	}
	if e.publisher != nil { // nil: it was never started
		e.publisher.Close()
	}
	if e.Drained != nil {
		e.Drained()
	}
	e.control.Close()
	e.keeper.Wait()
	e.dests.Close()
	return nil
}

// Publish implements [delayer.Delayer].
func (e *Engine) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	return e.PublishAs(ctx, message.Envelope{}, exchange, key, delay, msg)
}

// PublishAs is Publish with the id and the due time of our header, where as has them.
func (e *Engine) PublishAs(ctx context.Context, as message.Envelope, exchange, key string, delay time.Duration, msg amqp091.Publishing) (err error) {
	began := time.Now()
	waits, err := e.accept(exchange, key, delay, &msg)
	defer func() {
		err = e.explain(err, waits, exchange, key)
		if published := e.settings.Observer.Published; published != nil {
			published(ctx, delayer.PublishEvent{
				Backend: e.settings.Backend, Exchange: exchange, Key: key, Delay: delay, Took: time.Since(began), Err: err,
			})
		}
	}()
	if err != nil {
		return err
	}
	due := time.Now().Add(delay) // by this clock; as.Due is by the broker's
	envelope := message.NewEnvelope(due, delay, exchange)
	envelope.ID = cmp.Or(as.ID, envelope.ID)
	if !as.Due.IsZero() {
		envelope.Due = as.Due
	}
	for attempt := 1; ; attempt++ {
		out, err := e.prepare(ctx, exchange, key, waits, msg, envelope, due)
		if err == nil {
			err = e.publish(ctx, &out)
		}
		if !e.lost(err, delay) || attempt == attempts {
			return err
		}
		e.keeper.Doubt()
	}
}

// An outgoing message is ready to be sent.
type outgoing struct {
	broker.Publishing
	wait *Wait // it is the Submitter's: Message is as the user gave it
}

func (e *Engine) submit(ctx context.Context, out *outgoing) (Pending, error) {
	if out.wait != nil {
		return e.submitter.Submit(ctx, *out.wait, out.Message)
	}
	return e.publisher.Submit(ctx, out.Publishing)
}

func (e *Engine) publish(ctx context.Context, out *outgoing) error {
	pending, err := e.submit(ctx, out)
	if err == nil {
		err = pending.Wait(ctx)
	}
	if err == nil {
		out.confirmed()
	}
	return err
}

// confirmed gives up what was made for a message: before its confirm it may still be being written.
func (out *outgoing) confirmed() {
	if out.wait == nil {
		message.Recycle(out.Message)
	}
}

// attempts is how often a message is sent: after the topology was deleted it is declared again, and
// the message is sent again.
const attempts = 3

// accept returns how long a message will wait, or why it cannot be published. Nothing is sent yet.
func (e *Engine) accept(exchange, key string, delay time.Duration, msg *amqp091.Publishing) (waits time.Duration, err error) {
	if waits, err = fit(delay, e.limits); err != nil {
		return 0, e.fail(delayer.ErrOutOfRange, err)
	}
	bounds := e.bounds
	if frame, _, _ := e.control.Conn().Server(); frame > 0 { // another connection may have another
		bounds.FrameSize = frame
	}
	if waits == 0 {
		bounds.Growth = message.Growth{}
	}
	err = message.Validate(exchange, key, msg, bounds)
	if err == nil && e.settings.Passive {
		err = keeper.CheckWords(key)
	}
	for _, prefix := range e.settings.Reserved {
		if err == nil && message.Targets(exchange, key, msg.Headers, prefix) {
			err = fmt.Errorf("names that begin with %q belong to this Delayer: choose another name", prefix+".")
		}
	}
	if err != nil {
		return 0, e.fail(delayer.ErrInvalid, err)
	}
	return waits, nil
}

// lost reports whether a message was certainly not stored because objects of ours are gone.
func (e *Engine) lost(err error, delay time.Duration) bool {
	return delivery.TopologyLost(err) || errors.Is(err, broker.ErrReturned) && delay > 0
}

// prepare makes sure that a message can get to its destination, and returns how it is published. due
// is by the clock of this process.
func (e *Engine) prepare(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing, envelope message.Envelope, due time.Time) (out outgoing, err error) {
	// A message without a delay does not need the queues that belong to somebody else.
	if err := e.keeper.Ensure(ctx); err != nil && (delay > 0 || !errors.Is(err, delayer.ErrConflict)) {
		return out, err
	}
	destinations, err := e.dests.Bind(ctx, exchange, key, message.Copies(msg.Headers), delay)
	if err != nil {
		return out, err
	}
	if delay == 0 {
		out.Publishing = broker.Publishing{Exchange: exchange, Key: key, Direct: true, Message: message.Seal(msg, envelope, nil)}
		return out, nil
	}
	bcc, _ := msg.Headers["BCC"].([]any)
	wait := Wait{
		Delay: delay, Key: key, Words: message.Words(key), Destinations: destinations, Envelope: envelope, Due: due, BCC: bcc, Priority: msg.Priority,
	}
	if e.submitter != nil {
		out.wait, out.Message = &wait, msg
		return out, nil
	}
	to, err := e.strategy.Enter(ctx, wait)
	if err != nil {
		if broker.Code(err) == amqp091.NotFound { // an object of ours was deleted: what Enter declares leads there
			err = delivery.Lost(e.settings.Backend, "", err)
		}
		return out, err
	}
	if to.Ordered {
		msg.Priority = 0
	}
	out.Publishing = broker.Publishing{
		Exchange: to.Exchange, Key: key, Optional: to.Optional, Proof: to.Proof,
		Sole:    e.settings.QueueType == delayer.Quorum && !to.Optional, // an exchange of ours leads to one queue
		Message: message.Seal(msg, envelope, to.Headers, to.Keys...),
	}
	return out, nil
}

func (e *Engine) fail(kind, cause error) error {
	return &delayer.Error{Op: "publish", Backend: e.settings.Backend, Kind: kind, Cause: cause}
}

// explain adds the destination to a copy of an error that names none: messages of one bundle have
// theirs in common. It says what to do about a message without delay that no queue took.
func (e *Engine) explain(err error, delay time.Duration, exchange, key string) error {
	if err == nil {
		return nil
	}
	var known *delayer.Error
	if !errors.As(err, &known) {
		return err
	}
	own := *known
	if delay == 0 && errors.Is(err, broker.ErrReturned) {
		own.Hint = "bind a queue for this key"
	}
	if own.Object == "" {
		own.Object = fmt.Sprintf("to queue %.300q", key)
		if exchange != "" {
			own.Object = fmt.Sprintf("to exchange %.300q with key %.300q", exchange, key)
		}
	}
	return &own
}

// startMover starts to move misrouted messages, unless this Delayer leaves them to others.
func (e *Engine) startMover() *delivery.Mover {
	if e.settings.IgnoreMisrouted {
		return nil
	}
	plan := e.settings.Whole(e.strategy.Plan())
	cfg := delivery.MoverConfig{
		Destinations: e.dests, Control: e.control, Publisher: e.publisher, Observer: e.settings.Observer,
		Rules:   delivery.Rules{TTL: delivery.TTLs(e.settings.Prefix, plan)},
		Declare: e.keeper.Declare, Redeclare: e.keeper.Redeclare, Delay: e.resend,
	}
	for _, x := range plan.Exchanges {
		if x.DelayedKind != "" {
			cfg.Delivering = append(cfg.Delivering, x.Name)
		}
	}
	if s, ok := e.strategy.(Reckoner); ok {
		cfg.Rules.Own = s.Remaining
	} else {
		for _, q := range plan.Queues {
			if exchange, ok := q.Args["x-dead-letter-exchange"].(string); ok {
				cfg.Releasing = append(cfg.Releasing, exchange)
			}
		}
	}
	if s, ok := e.strategy.(Router); ok {
		cfg.Leaving = s.Leaving
	}
	return delivery.StartMover(cfg)
}

// resend publishes a message that has waited for a part of its delay. It keeps the id and the due
// time. The strategy gets a due time on this process's clock: the header's is on another's.
func (e *Engine) resend(ctx context.Context, was message.Envelope, key string, remaining time.Duration, msg amqp091.Publishing) error {
	waits, err := fit(remaining, e.limits)
	if err != nil {
		return e.fail(delayer.ErrOutOfRange, err)
	}
	was.Delay = remaining
	out, err := e.prepare(ctx, was.Exchange, key, waits, msg, was, time.Now().Add(waits))
	if err == nil {
		err = e.publish(ctx, &out)
	}
	if e.lost(err, remaining) {
		e.keeper.Doubt()
	}
	return e.explain(err, waits, was.Exchange, key)
}
