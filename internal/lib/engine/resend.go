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
// time. The strategy gets a due time on this process's clock: the header's is on another's.
func (e *Engine) resend(ctx context.Context, was message.Envelope, key string, remaining time.Duration, msg amqp091.Publishing) error {
	waits, err := fit(remaining, e.limits)
	if err != nil {
		return e.fail(delayer.ErrOutOfRange, err)
	}
	was.Delay = remaining
	here := was
	here.Due = time.Now().Add(waits)
	sealed, limit, err := e.prepare(ctx, was.Exchange, key, waits, msg, here)
	if err == nil {
		sealed.Message.Headers[delayer.Header] = was.String()
		err = e.publisher.Publish(ctx, sealed)
	}
	if err == nil && limit.missed() {
		err = e.late(ctx, limit)
	}
	if e.lost(err, remaining) {
		e.keeper.Doubt()
	}
	return e.locate(err, was.Exchange, key)
}
