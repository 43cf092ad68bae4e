package engine

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// startMover starts to move misrouted messages, unless this Delayer leaves them to others.
func (e *Engine) startMover() *delivery.Mover {
	dests, ok := e.dests.(bound)
	if !ok || e.settings.IgnoreMisrouted {
		return nil
	}
	plan := e.settings.Whole(e.strategy.Plan())
	cfg := delivery.MoverConfig{
		Destinations: dests.Destinations, Control: e.control, Publisher: e.publisher, Observer: e.settings.Observer,
		Rules:   delivery.Rules{TTL: delivery.TTLs(plan)},
		Declare: e.keeper.Declare, Redeclare: e.keeper.Redeclare, Delay: e.resend,
	}
	for _, x := range plan.Exchanges {
		if x.DelayedKind != "" {
			cfg.Delivering = append(cfg.Delivering, x.Name)
		}
	}
	if s, ok := e.strategy.(Reckoner); ok {
		cfg.Rules.Own = s.Remaining
	}
	if s, ok := e.strategy.(Router); ok {
		cfg.Leaving = s.Leaving
	}
	return delivery.StartMover(cfg)
}

// resend publishes a message that has waited for a part of its delay. It keeps the id and the due
// time.
func (e *Engine) resend(ctx context.Context, was message.Envelope, key string, remaining time.Duration, msg amqp091.Publishing) error {
	waits, err := fit(remaining, e.limits)
	if err != nil {
		return e.fail(delayer.ErrOutOfRange, err)
	}
	was.Delay = remaining
	err = e.resendOnce(ctx, was, key, waits, msg)
	if e.lost(err, remaining) {
		e.keeper.Doubt()
	}
	return e.locate(err, was.Exchange, key)
}

// resendOnce makes one attempt. The strategy gets a due time on this process's clock: the header's
// is on another's.
func (e *Engine) resendOnce(ctx context.Context, was message.Envelope, key string, waits time.Duration, msg amqp091.Publishing) error {
	if err := e.keeper.Ensure(ctx); err != nil {
		return err
	}
	destinations, err := e.dests.Bind(ctx, was.Exchange, key, message.Copies(msg.Headers), waits)
	if err != nil {
		return err
	}
	here := was
	here.Due = time.Now().Add(waits)
	entry, err := e.enter(ctx, Wait{Delay: waits, Key: key, Words: message.Words(key), Destinations: destinations, Envelope: here, Priority: msg.Priority})
	if err != nil {
		return err
	}
	err = e.publisher.Publish(ctx, e.seal(entry, key, msg, was))
	if limit := entry.deadline(); err == nil && limit.missed() {
		return e.late(ctx, limit)
	}
	return err
}
