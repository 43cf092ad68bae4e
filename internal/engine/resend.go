package engine

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/misrouted"
)

// startMover starts to move misrouted messages, unless this Delayer leaves them to others.
func (e *Engine) startMover() *misrouted.Mover {
	dests, ok := e.dests.(bound)
	if !ok || e.settings.IgnoreMisrouted {
		return nil
	}
	return misrouted.Start(misrouted.Config{
		Prefix: e.settings.Prefix, Stage: e.settings.Stage(), Control: e.control,
		Log:     e.settings.BrokerOptions("").Slog().With("backend", e.settings.Backend),
		Backend: e.settings.Backend, Observer: e.settings.Observer,
		Rules: e.rules(), Resend: e.settings.Resend.Enabled(),
		Publish: e.publisher.Publish, PublishDirect: e.publisher.PublishDirect,
		Delay: e.resend, Vouches: dests.Vouches,
		Mend:    func(ctx context.Context, queue, key string) error { return e.mend(ctx, dests, queue, key) },
		Declare: func(ctx context.Context) error { return e.keeper.Restore(ctx, e.settings.Stage().Plan()) },
	})
}

// rules know the TTLs of all queues.
func (e *Engine) rules() misrouted.Rules {
	rules := misrouted.Rules{TTL: misrouted.TTLs(e.settings.Whole(e.strategy.Plan()))}
	if s, ok := e.strategy.(Reckoner); ok {
		rules.Own = s.Remaining
	}
	return rules
}

// mend makes the bindings by which a message should have left a waiting queue. Another process that
// declares our exchanges again does not know which bindings this one has made on use. A misrouted
// message shows which are missing.
func (e *Engine) mend(ctx context.Context, dests bound, queue, key string) error {
	if s, ok := e.strategy.(Router); ok {
		if err := e.keeper.Restore(ctx, s.Leaving(queue, delivery.Words(key))); err != nil {
			return err
		}
	}
	return dests.Rebind(ctx)
}

// resend publishes a message that has waited for a part of its delay. It keeps the id and the due
// time.
func (e *Engine) resend(ctx context.Context, was message.Envelope, key string, remaining time.Duration, msg amqp091.Publishing) error {
	waits, err := fit(remaining, e.limits)
	if err != nil {
		return e.fail(delayer.ErrOutOfRange, err)
	}
	if err := e.fault(remaining); err != nil {
		return err
	}
	was.Delay = remaining
	e.keeper.Expect(waits)
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
	entry, err := e.strategy.Enter(ctx, Message{Delay: waits, Key: key, Words: delivery.Words(key), Destinations: destinations, Envelope: here})
	if err != nil {
		return err
	}
	err = e.publisher.Publish(ctx, entry.seal(key, msg, was))
	if limit := entry.deadline(); err == nil && limit.missed() {
		return e.late(ctx, limit)
	}
	return err
}
