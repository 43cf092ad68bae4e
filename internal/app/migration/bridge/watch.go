package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// watchEvery is how often the bindings of the exchange are looked at.
const watchEvery = 5 * time.Second

// watch moves bindings that others make on the exchange to the one behind, until ctx ends. Their
// queues would get delayed messages at once, and again when they are due.
func (b *Bridge) watch(ctx context.Context) {
	for {
		if err := b.moveBindings(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("the bindings of the exchange could not be looked at, or not all of them be moved behind the bridge", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
	}
}

// moveBindings looks once. It changes something only while the exchange is switched to the bridge
// and nobody else works on it: others move bindings too.
func (b *Bridge) moveBindings(ctx context.Context) error {
	is, err := b.cfg.API.Definition(ctx, b.cfg.Exchange)
	if err != nil || !b.names.differs(is) {
		return err
	}
	lock, err := record.Open(ctx, b.control.Conn(), b.cfg.Settings.Prefix, b.cfg.Exchange)
	if errors.Is(err, delayer.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if r, _ := lock.Record(); r.Step != record.Switched || r.Mode != record.Bridging {
		return nil
	}
	if is, err = b.cfg.API.Definition(ctx, b.cfg.Exchange); err != nil {
		return err
	}
	return b.mend(ctx, is)
}

// differs reports whether an exchange does not lead to the bridge, or elsewhere too.
func (n names) differs(is inventory.Definition) bool {
	elsewhere := func(b inventory.BindingInfo) bool { return !n.leads(b) }
	return len(is.Out) == 0 || slices.ContainsFunc(is.Out, elsewhere)
}

// leads reports whether a binding leads to the bridge.
func (n names) leads(b inventory.BindingInfo) bool { return !b.ToExchange && b.Target == n.bridge }

// mend leaves only bindings to the bridge.
func (b *Bridge) mend(ctx context.Context, is inventory.Definition) error {
	if !slices.ContainsFunc(is.Out, b.names.leads) {
		b.log.Warn("the exchange did not lead to the bridge; it does again", "queue", b.names.bridge)
		if err := b.bind(ctx, b.names.lead(is)); err != nil {
			return err
		}
	}
	var errs []error
	for _, stray := range is.Out {
		if b.names.leads(stray) {
			continue
		}
		if err := b.move(ctx, stray); err != nil { // an exclusive queue is bound by its own connection alone
			errs = append(errs, fmt.Errorf("%q is bound to the exchange itself, and gets messages at once and twice: %w", stray.Target, err))
		}
	}
	return errors.Join(errs...)
}

// lead is the binding by which an exchange leads to the bridge: every message, but only those with an
// empty routing key where the exchange is direct.
func (n names) lead(is inventory.Definition) inventory.BindingInfo {
	lead := inventory.BindingInfo{Source: is.Name, Target: n.bridge}
	if is.Type == amqp091.ExchangeTopic {
		lead.Key = "#"
	}
	return lead
}

// move binds behind first, and leads to the bridge what the binding matches: nothing is lost
// meanwhile, whichever type the exchange has.
func (b *Bridge) move(ctx context.Context, stray inventory.BindingInfo) error {
	behind, lead := stray, stray
	behind.Source = b.names.behind
	lead.Target, lead.ToExchange = b.names.bridge, false
	for _, binding := range []inventory.BindingInfo{behind, lead} {
		if err := b.bind(ctx, binding); err != nil {
			return err
		}
	}
	b.log.Warn("a binding on the exchange has gone around the bridge; it is moved behind it",
		"target", stray.Target, "key", stray.Key, "behind", b.names.behind)
	return b.control.Do(ctx, func(ch *amqp091.Channel) error {
		if stray.ToExchange {
			return ch.ExchangeUnbind(stray.Target, stray.Key, stray.Source, waitForAnswer, stray.Arguments)
		}
		return ch.QueueUnbind(stray.Target, stray.Key, stray.Source, stray.Arguments)
	})
}

func (b *Bridge) bind(ctx context.Context, binding inventory.BindingInfo) error {
	return b.control.Do(ctx, func(ch *amqp091.Channel) error {
		if binding.ToExchange {
			return ch.ExchangeBind(binding.Target, binding.Key, binding.Source, waitForAnswer, binding.Arguments)
		}
		return ch.QueueBind(binding.Target, binding.Key, binding.Source, waitForAnswer, binding.Arguments)
	})
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods
