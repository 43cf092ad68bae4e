package engine

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/misrouted"
	"github.com/delayer-go/delayer/internal/topology"
)

// Resend publishes a message again that has waited for a part of its delay. It keeps the id and the due time.
func (e *Engine) Resend(ctx context.Context, was message.Envelope, key string, remaining time.Duration, msg amqp091.Publishing) error {
	waits, err := fit(remaining, e.limits)
	if err != nil {
		return e.fail(delayer.ErrOutOfRange, err)
	}
	if fault := e.fault.Load(); fault != nil {
		return fault
	}
	was.Delay = remaining
	e.keepWatch(waits)
	err = e.resend(ctx, was, key, waits, msg)
	if e.lost(err, remaining) {
		e.stale.Store(true)
	}
	return e.locate(err, was.Exchange, key)
}

// resend makes one attempt. A strategy is given a due time by this process's clock: that in the header is by another.
func (e *Engine) resend(ctx context.Context, was message.Envelope, key string, waits time.Duration, msg amqp091.Publishing) error {
	if e.stale.Load() {
		if err := e.redeclare(ctx); err != nil {
			return err
		}
	}
	destinations, err := e.reach(ctx, was.Exchange, key, message.Copies(msg.Headers), waits)
	if err != nil {
		return err
	}
	here := was
	here.Due = time.Now().Add(waits)
	entry, err := e.strategy.Enter(ctx, Journey{Delay: waits, Words: delivery.Words(key), Destinations: destinations, Envelope: here})
	if err != nil {
		return err
	}
	return e.publisher.Publish(ctx, broker.Publishing{
		Exchange: entry.Exchange, Key: key, Optional: entry.Optional, Message: message.Seal(msg, was, entry.Headers, entry.Keys...),
	})
}

// startMover begins to look after misrouted messages. A strategy that is Direct has none.
func (e *Engine) startMover() *misrouted.Mover {
	if _, direct := e.strategy.(Direct); direct || e.opts.Misrouted == misrouted.Ignore {
		return nil
	}
	return misrouted.Start(misrouted.Config{
		Prefix: e.opts.Prefix, Stage: e.stage, Control: e.control, Log: e.opts.Broker.Slog().With("backend", e.opts.Broker.Backend),
		Rules: e.rules(), Resend: e.opts.Misrouted == misrouted.Resend,
		Publish: e.publisher.Publish, PublishDirect: e.publisher.PublishDirect,
		Delay: e.Resend, Vouches: e.dests.Vouches,
		Declare: func(ctx context.Context) error { return e.Declare(ctx, e.stage.Plan()) },
	})
}

// rules are the strategy's: the TTLs of all its queues, also of those that are declared on use, and what it knows beyond.
func (e *Engine) rules() misrouted.Rules {
	plan := e.Plan()
	if s, ok := e.strategy.(interface{ All() topology.Plan }); ok {
		plan = s.All()
	}
	rules := misrouted.Rules{TTL: misrouted.TTLs(plan)}
	if s, ok := e.strategy.(interface {
		Remaining(amqp091.Table) (time.Duration, bool)
	}); ok {
		rules.Own = s.Remaining
	}
	return rules
}
