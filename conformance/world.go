package conformance

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A World is the broker around a Delayer. It does what an application does there (declare, bind,
// publish, consume), and what an operator could do. Its methods are safe for concurrent use. Close
// deletes all that it declared.
//
// A World that lacks an ability returns [Unable] from that method. The cases that need it are then
// skipped with its reason. Package rabbitworld has the World of a real RabbitMQ.
type World interface {
	// DeclareQueue declares a queue that survives a restart of the broker. Declaring it again
	// changes nothing.
	DeclareQueue(ctx context.Context, name string) error
	// DeclareFullQueue declares a queue that is full: it refuses every message with a nack.
	DeclareFullQueue(ctx context.Context, name string) error
	// DeclareStuckQueue declares a queue that neither confirms nor delivers, as one whose replicas
	// have lost their majority, until resume is called or the World is closed. Then it does both
	// with all that was sent to it. resume may be called more than once.
	DeclareStuckQueue(ctx context.Context, name string) (resume func(ctx context.Context) error, err error)
	// DeleteQueue deletes a queue with all it holds.
	DeleteQueue(ctx context.Context, name string) error
	// DeclareExchange declares an exchange that survives a restart. kind is direct, topic, fanout
	// or headers.
	DeclareExchange(ctx context.Context, name, kind string) error
	DeleteExchange(ctx context.Context, name string) error
	// Bind binds queue to exchange; args are for an exchange of kind headers.
	Bind(ctx context.Context, queue, key, exchange string, args amqp091.Table) error
	Unbind(ctx context.Context, queue, key, exchange string, args amqp091.Table) error

	// Publish publishes msg without a Delayer, and returns once the broker has confirmed it.
	// Delayed messages are compared with those that arrive from here.
	Publish(ctx context.Context, exchange, key string, msg amqp091.Publishing) error

	// Consume calls arrived for every message of queue, one after the other in the queue's order,
	// until the queue is deleted or the World closed. It acknowledges a message once arrived has
	// returned, and goes on by itself after the broker was restarted.
	Consume(ctx context.Context, queue string, arrived func(Arrival)) error

	// Unroutable calls arrived for every message in the Delayers' unroutable queue, past ones since
	// the suite began and future ones. All callers, of all Worlds, see all of them.
	Unroutable(ctx context.Context, arrived func(Arrival)) error

	// Cut closes, from the broker's side, all connections of the Delayers. It may close others too.
	Cut(ctx context.Context) error

	// DeleteOwnExchange deletes an exchange that the Delayers have declared, and through which
	// messages for exchanges have yet to pass: an operator's mistake. A queue is not deleted.
	DeleteOwnExchange(ctx context.Context) error

	// Restart stops the broker in good order and starts it again. It returns once the broker and
	// this World work again.
	Restart(ctx context.Context) error

	// Clock returns the broker's clock, if it can be put forward.
	Clock(ctx context.Context) (Clock, error)

	Close() error
}

// A Clock is that of a broker under libfaketime, in a virtual machine, or in memory. A case with
// delays of years then takes seconds. It is called while no other case runs.
type Clock interface {
	// Now is what the broker's clock shows. It may be ahead of that by what a step of Forward
	// takes, never behind.
	Now() time.Time
	// Forward makes the clock show d more, as if so much time had passed, and returns once it does.
	Forward(ctx context.Context, d time.Duration) error
}

// An Arrival is a message that reached a consumer.
type Arrival struct {
	amqp091.Delivery
	// At is when it reached the consumer, with a monotonic reading.
	At time.Time
}

// Unable returns the error of a World that cannot do what was asked, and why: "restart: the broker
// is not ours".
func Unable(reason string) error { return &unableError{reason} }

type unableError struct{ reason string }

func (e *unableError) Error() string { return "not possible here: " + e.reason }
