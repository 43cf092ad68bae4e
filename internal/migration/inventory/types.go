package inventory

import amqp091 "github.com/rabbitmq/amqp091-go"

// DelayedMessage is the exchange type of the x-delayed-message plugin.
const DelayedMessage = "x-delayed-message"

// An Exchange as the broker has it.
type Exchange struct {
	Name, Type                    string
	Durable, AutoDelete, Internal bool
	Arguments                     amqp091.Table // integers are int64
	Policy                        string        // the name of the policy that applies; "" if none
}

// Delayed reports whether the exchange is one of the plugin.
func (x Exchange) Delayed() bool { return x.Type == DelayedMessage }

// DelayedType is the type by which an exchange of the plugin routes, or "".
func (x Exchange) DelayedType() string {
	kind, _ := x.Arguments["x-delayed-type"].(string)
	return kind
}

// A Binding leads from an exchange to a queue or an exchange.
type Binding struct {
	Source, Target string
	ToExchange     bool
	Key            string
	Arguments      amqp091.Table
}

// A Definition is an exchange with all its bindings: what must be carried over when it changes
// hands.
type Definition struct {
	Exchange
	Out []Binding // it is the source
	In  []Binding // it is the target, of exchanges
}
