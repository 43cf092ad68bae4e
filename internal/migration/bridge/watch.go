package bridge

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/migration/inventory"
)

// watchEvery is how often the bindings of the exchange are looked at.
const watchEvery = 5 * time.Second

// watch moves bindings that others make on the exchange to the one behind, until ctx ends. Their
// queues would get delayed messages at once, and again when they are due.
func (b *Bridge) watch(ctx context.Context) {
	for {
		if err := b.moveBindings(ctx); err != nil && ctx.Err() == nil {
			b.forwarder.quiet.warn(b.log, "the bindings of the exchange cannot be looked at", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
	}
}

// moveBindings looks once.
func (b *Bridge) moveBindings(ctx context.Context) error {
	is, err := b.cfg.API.Definition(ctx, b.cfg.Exchange)
	if err != nil {
		return err
	}
	missing, strays := b.names.strays(is)
	if missing {
		b.log.Warn("the exchange did not lead to the bridge; it does again", "queue", b.names.bridge)
		if err := b.bind(ctx, inventory.Binding{Source: is.Name, Target: b.names.bridge}); err != nil {
			return err
		}
	}
	for _, stray := range strays {
		if err := b.move(ctx, stray); err != nil {
			return err
		}
	}
	return nil
}

// strays returns the bindings that are not the bridge's own, and whether that is missing. An
// exchange that is no fanout has been given back: its bindings are as they shall be.
func (n names) strays(is inventory.Definition) (missing bool, strays []inventory.Binding) {
	if is.Type != "fanout" {
		return false, nil
	}
	missing = true
	for _, binding := range is.Out {
		if !binding.ToExchange && binding.Target == n.bridge {
			missing = false
			continue
		}
		strays = append(strays, binding)
	}
	return missing, strays
}

// move binds behind first: nothing is lost meanwhile.
func (b *Bridge) move(ctx context.Context, stray inventory.Binding) error {
	behind := stray
	behind.Source = b.names.behind
	if err := b.bind(ctx, behind); err != nil {
		return err
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

func (b *Bridge) bind(ctx context.Context, binding inventory.Binding) error {
	return b.control.Do(ctx, func(ch *amqp091.Channel) error {
		if binding.ToExchange {
			return ch.ExchangeBind(binding.Target, binding.Key, binding.Source, waitForAnswer, binding.Arguments)
		}
		return ch.QueueBind(binding.Target, binding.Key, binding.Source, waitForAnswer, binding.Arguments)
	})
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods
