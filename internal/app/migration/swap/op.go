package swap

import (
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/topology"
)

// A Verb is what an Op does.
type Verb string

// The verbs.
const (
	Declare      Verb = "declare exchange"
	Delete       Verb = "delete exchange"
	DeclareQueue Verb = "declare queue"
	Bind         Verb = "bind"
	Unbind       Verb = "unbind"
)

// An Op is one AMQP operation. All of them may be repeated.
type Op struct {
	Verb     Verb
	Exchange inventory.Exchange    // of Declare; of Delete its name
	Queue    topology.Queue        // of DeclareQueue
	Binding  inventory.BindingInfo // of Bind and Unbind
}

// String is the operation for people.
func (o Op) String() string {
	switch o.Verb {
	case DeclareQueue:
		return fmt.Sprintf("%s %q", o.Verb, o.Queue.Name)
	case Declare:
		return fmt.Sprintf("%s %q, type %s", o.Verb, o.Exchange.Name, o.Exchange.Type)
	case Delete:
		return fmt.Sprintf("%s %q", o.Verb, o.Exchange.Name)
	}
	return fmt.Sprintf("%s %v", o.Verb, o.Binding)
}

// run sends the operation. With noWait it does not wait for the answer; a queue's declaration
// always waits.
func (o Op) run(ch *amqp091.Channel, noWait bool) error {
	switch o.Verb {
	case Declare:
		x := o.Exchange
		return ch.ExchangeDeclare(x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal, noWait, x.Arguments)
	case Delete:
		const ifUnused = false
		return ch.ExchangeDelete(o.Exchange.Name, ifUnused, noWait)
	case DeclareQueue:
		_, err := ch.QueueDeclare(o.Queue.Name, durable, !autoDelete, !exclusive, waitForAnswer, o.Queue.Args)
		return err
	case Bind:
		return o.Binding.Bind(ch, noWait)
	case Unbind:
		return o.Binding.Unbind(ch, noWait)
	}
	return fmt.Errorf("unknown operation %q", o.Verb)
}

// Names for the bare booleans of amqp091-go.
const (
	durable       = true
	autoDelete    = true
	exclusive     = true
	waitForAnswer = false
)
