package swap

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/migration/inventory"
)

// A Performer does what a Change asks for.
type Performer interface {
	// Perform does all operations as fast as it can. After an error any number of them were done,
	// from the first on.
	Perform(ctx context.Context, ops []Op) error
	// Repair does each operation by itself, and returns the bindings whose source or target does
	// not exist.
	Repair(ctx context.Context, ops []Op) (refused []inventory.Binding, err error)
	// Exists asks for an exchange, HasQueue for a queue.
	Exists(ctx context.Context, exchange string) (bool, error)
	HasQueue(ctx context.Context, queue string) (bool, error)
}

// Wire is the Performer of a connection.
type Wire struct{ Conn *broker.Conn }

// Perform sends all operations without waiting for an answer, and then asks one question: the
// broker answers it after the rest.
func (w Wire) Perform(ctx context.Context, ops []Op) error {
	ch, err := w.Conn.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
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
	return explain(reason(closed, err))
}

// reason is why the broker closed a channel, which the operation that failed may not know.
func reason(closed <-chan *amqp091.Error, err error) error {
	select {
	case why, ok := <-closed:
		if ok && why != nil {
			return why
		}
	default:
	}
	return err
}

// explain names what the broker refused. Its own text names the object.
func explain(err error) error {
	switch broker.Code(err) {
	case amqp091.ResourceLocked:
		return &delayer.Error{
			Op: "migrate", Kind: delayer.ErrConflict, Cause: err,
			Hint: hintExclusive,
		}
	case amqp091.AccessRefused:
		return &delayer.Error{
			Op: "migrate", Kind: delayer.ErrAccess, Cause: err,
			Hint: "the user needs configure, write and read for the exchange, its queues and the prefix: rabbitmqctl set_permissions",
		}
	case amqp091.CommandInvalid:
		return &delayer.Error{
			Op: "migrate", Kind: delayer.ErrUnavailable, Cause: err,
			Hint: "this broker has no exchange type x-delayed-message: enable the plugin",
		}
	}
	return broker.Explain("migrate", "", "", err)
}

// What to do about a queue that its own connection alone can bind.
const (
	hintExclusive       = "only the connection that declared an exclusive queue can bind it: close that consumer, and let it bind its queue again after this"
	hintExclusiveGap    = "give --rabbitmqctl, which keeps the bindings of an exclusive queue; or close that consumer, and let it bind its queue again after this"
	hintExclusiveBridge = "a bridge cannot feed an exclusive queue, because only its own connection can bind it: use --mode in-place, or let its consumer declare it without exclusive"
)

// explainExclusive says what to do about an exclusive queue that keeps an exchange from a shape.
func explainExclusive(err error, to Shape, onNode bool) error {
	var known *delayer.Error
	if broker.Code(err) != amqp091.ResourceLocked || !errors.As(err, &known) {
		return err
	}
	switch {
	case to == Front:
		known.Hint = hintExclusiveBridge
	case !onNode:
		known.Hint = hintExclusiveGap
	}
	return err
}

// Repair waits for each answer.
func (w Wire) Repair(ctx context.Context, ops []Op) ([]inventory.Binding, error) {
	var refused []inventory.Binding
	for _, op := range ops {
		err := w.one(ctx, op)
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

func (w Wire) one(ctx context.Context, op Op) error {
	ch, err := w.Conn.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return op.run(ch, waitForAnswer)
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
	return w.there(ctx, fmt.Sprintf("queue %q", queue), func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, durable, !autoDelete, !exclusive, waitForAnswer, nil)
		return err
	})
}

func (w Wire) there(ctx context.Context, object string, ask func(*amqp091.Channel) error) (bool, error) {
	ch, err := w.Conn.Channel(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = ch.Close() }()
	err = ask(ch)
	switch broker.Code(err) {
	case amqp091.NotFound:
		return false, nil
	case amqp091.ResourceLocked:
		return true, nil
	}
	return err == nil, broker.Explain("look at", "", object, err)
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
	ch, err := conn.Channel(ctx)
	if err != nil {
		return err
	}
	x := inventory.Exchange{Name: trial, Type: inventory.DelayedMessage, Arguments: amqp091.Table{delayedType: "direct"}}
	for _, op := range []Op{{Verb: Declare, Exchange: x}, {Verb: Delete, Exchange: x}} {
		if err := op.run(ch, waitForAnswer); err != nil {
			return pluginError(err)
		}
	}
	return ch.Close()
}

func pluginError(err error) error {
	if broker.Code(err) != amqp091.CommandInvalid {
		return explain(err)
	}
	return &delayer.Error{
		Op: "rollback", Kind: delayer.ErrUnavailable, Cause: errPlugin,
		Hint: "enable rabbitmq_delayed_message_exchange first; or stay: nothing was changed",
	}
}
