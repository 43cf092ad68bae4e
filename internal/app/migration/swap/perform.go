package swap

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// A Performer does what a Change asks for.
type Performer interface {
	// Perform does all operations as fast as it can. After an error any number of them were done,
	// from the first on.
	Perform(ctx context.Context, ops []Op) error
	// Repair does each operation by itself, and returns the bindings whose source or target does
	// not exist.
	Repair(ctx context.Context, ops []Op) (refused []inventory.BindingInfo, err error)
	// Exists asks for an exchange, HasQueue for a queue.
	Exists(ctx context.Context, exchange string) (bool, error)
	HasQueue(ctx context.Context, queue string) (bool, error)
}

// Wire is the Performer of a connection.
type Wire struct{ Conn *broker.Conn }

// on runs f on a channel of its own.
func (w Wire) on(ctx context.Context, f func(*amqp091.Channel) error) error {
	ch, err := w.Conn.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return f(ch)
}

// Perform sends all operations without waiting for an answer, and then asks one question: the
// broker answers it after the rest.
func (w Wire) Perform(ctx context.Context, ops []Op) error {
	if err := w.perform(ctx, ops); err != nil {
		return err
	}
	for _, op := range ops {
		if op.Verb == DeclareQueue {
			return objects.Settle(ctx, w.Conn, op.Queue.Name)
		}
	}
	return nil
}

func (w Wire) perform(ctx context.Context, ops []Op) error {
	return w.on(ctx, func(ch *amqp091.Channel) (err error) {
		closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
		const noWait = true
		for _, op := range ops {
			if err = op.run(ch, noWait); err != nil {
				break
			}
		}
		if err == nil {
			const some, noSize, wholeChannel = 1, 0, false
			err = ch.Qos(some, noSize, wholeChannel)
		}
		if err == nil {
			return nil
		}
		if ch.IsClosed() { // a moment before it says why, which the operation that failed may not know
			if why := <-closed; why != nil {
				err = why
			}
		}
		return explain(err)
	})
}

// Repair waits for each answer.
func (w Wire) Repair(ctx context.Context, ops []Op) (refused []inventory.BindingInfo, err error) {
	for _, op := range ops {
		err := w.on(ctx, func(ch *amqp091.Channel) error { return op.run(ch, waitForAnswer) })
		switch {
		case err == nil:
		case op.Verb == Bind && broker.Code(err) == amqp091.NotFound:
			refused = append(refused, op.Binding)
		default:
			return refused, fmt.Errorf("%v: %w", op, explain(err))
		}
	}
	return refused, nil
}

// Exists declares passively, which compares nothing but the name.
func (w Wire) Exists(ctx context.Context, exchange string) (bool, error) {
	const internal = false
	return w.there(ctx, fmt.Sprintf("exchange %q", exchange), func(ch *amqp091.Channel) error {
		return ch.ExchangeDeclarePassive(exchange, "direct", durable, !autoDelete, internal, waitForAnswer, nil)
	})
}

// HasQueue is true also for a queue that is exclusive to another connection.
func (w Wire) HasQueue(ctx context.Context, queue string) (bool, error) {
	d, err := w.Depth(ctx, queue)
	return err == nil && !d.Missing, err
}

// there reports whether the broker has what ask asks for.
func (w Wire) there(ctx context.Context, object string, ask func(*amqp091.Channel) error) (bool, error) {
	err := w.on(ctx, ask)
	switch broker.Code(err) {
	case amqp091.NotFound:
		return false, nil
	case amqp091.ResourceLocked:
		return true, nil
	}
	return err == nil, broker.Explain("look at", "", object, err)
}

// explain names what the broker refused. Its own text names the object.
func explain(err error) error {
	switch broker.Code(err) {
	case amqp091.ResourceLocked:
		return &delayer.Error{
			Op: "migrate", Kind: delayer.ErrConflict, Cause: err,
			Hint: "only the connection that declared an exclusive queue can bind it: close that consumer, and let it bind its queue again after this",
		}
	case amqp091.AccessRefused:
		return &delayer.Error{
			Op: "migrate", Kind: delayer.ErrAccess, Cause: err,
			Hint: "the user needs configure, write and read for the exchange, its queues and the prefix: rabbitmqctl set_permissions",
		}
	case amqp091.CommandInvalid:
		return &delayer.Error{
			Op: "migrate", Kind: delayer.ErrNotFound, Cause: err,
			Hint: "this broker has no exchange type x-delayed-message: enable the plugin",
		}
	}
	return broker.Explain("migrate", "", "", err)
}

// explain says what to do about what keeps an exchange from a shape: an exclusive queue, or a
// configuration of delayer serve that is another one.
func (s *Swapper) explain(err error, st state, to Shape) error {
	var known *delayer.Error
	if broker.Code(err) == amqp091.PreconditionFailed && to == Front {
		marker := st.spec().Marker(s.Prefix)
		return s.fail("switch", delayer.ErrConflict, fmt.Sprintf("let its entry have type: %s and to: %s, or give --to; then stop delayer serve, and delete exchange %q",
			st.spec().Type, st.target, marker.Name), "delayer serve was configured in another way for it: %w", err)
	}
	if broker.Code(err) != amqp091.ResourceLocked || !errors.As(err, &known) {
		return err
	}
	switch {
	case to == Front:
		known.Hint = "delayer serve cannot feed an exclusive queue, because only its own connection can bind it: use --mode in-place, or let its consumer declare it without exclusive"
	case !st.onNode:
		known.Hint = "give --rabbitmqctl, which keeps the bindings of an exclusive queue; or close that consumer, and let it bind its queue again after this"
	}
	return err
}

// errPlugin is the cause of a rollback to a plugin that is not there any more.
var errPlugin = errors.New("this broker has no exchange type x-delayed-message any more")

// HasPlugin declares an exchange of the plugin's type under a name of ours, on a connection of its
// own: the broker closes it if there is no such type.
func HasPlugin(ctx context.Context, opts broker.Options, trial string) error {
	conn, err := broker.Dial(ctx, opts)
	if err != nil {
		return err
	}
	defer conn.Close()
	x := inventory.Exchange{Name: trial, Type: inventory.DelayedMessage, Arguments: amqp091.Table{delayedType: "direct"}}
	err = Wire{conn}.on(ctx, func(ch *amqp091.Channel) error {
		for _, verb := range []Verb{Declare, Delete} {
			if err := (Op{Verb: verb, Exchange: x}).run(ch, waitForAnswer); err != nil {
				return err
			}
		}
		return nil
	})
	if broker.Code(err) == amqp091.CommandInvalid {
		return &delayer.Error{
			Op: "rollback", Kind: delayer.ErrNotFound, Cause: errPlugin,
			Hint: "enable rabbitmq_delayed_message_exchange first; or stay: nothing was changed",
		}
	}
	return explain(err)
}
