package inventory

import (
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// An Inventory is what one look at a vhost found.
type Inventory struct {
	Vhost         string   // of the AMQP address
	Version       string   // of the broker that answers: "4.0.5"
	ExchangeTypes []string // that the broker knows
	Nodes         []Node
	Features      []Feature

	Exchanges []Exchange // all of the vhost
	Delayed   []Delayed  // those of the plugin
	Shovels   []Shovel

	Unseen []Unseen
}

// A Node is a member of the cluster.
type Node struct {
	Name    string
	Running bool
	Plugin  string // version of the running plugin; "" without one
}

// A Feature is a feature flag.
type Feature struct {
	Name  string `json:"name"`
	State string `json:"state"` // enabled, disabled or unavailable
}

// Khepri is the feature flag of the metadata store that follows Mnesia.
const Khepri = "khepri_db"

// Enabled reports whether a feature flag is known to be on.
func (v *Inventory) Enabled(flag string) bool {
	return slices.Contains(v.Features, Feature{Name: flag, State: "enabled"})
}

// Delayed is an exchange of the plugin with what the management API knows of it.
type Delayed struct {
	Definition
	Pending *int64  // on the node that answered; nil if the broker does not say
	Rate    float64 // messages published to it a second
}

// A Shovel moves messages to an exchange.
type Shovel struct{ Name, TargetExchange string }

// Unseen is what the API does not tell this user.
type Unseen struct{ What, Why string }

// DelayedMessage is the exchange type of the x-delayed-message plugin.
const DelayedMessage = "x-delayed-message"

// An Exchange as the broker has it.
type Exchange struct {
	Name, Type        string
	Durable, Internal bool
	AutoDelete        bool          `json:"auto_delete"`
	Arguments         amqp091.Table `json:"-"` // integers are int64
	Policy            string        // the name of the policy that applies; "" if none
}

// Delayed reports whether the exchange is one of the plugin.
func (x Exchange) Delayed() bool { return x.Type == DelayedMessage }

// DelayedType is the type by which an exchange of the plugin routes, or "".
func (x Exchange) DelayedType() string {
	kind, _ := x.Arguments["x-delayed-type"].(string)
	return kind
}

// A BindingInfo leads from an exchange to a queue or an exchange.
type BindingInfo struct {
	Source, Target string
	ToExchange     bool
	Key            string
	Arguments      amqp091.Table
}

// Bind makes the binding. With noWait it does not wait for the answer.
func (b BindingInfo) Bind(ch *amqp091.Channel, noWait bool) error {
	if b.ToExchange {
		return ch.ExchangeBind(b.Target, b.Key, b.Source, noWait, b.Arguments)
	}
	return ch.QueueBind(b.Target, b.Key, b.Source, noWait, b.Arguments)
}

// Unbind removes the binding. noWait is for one to an exchange: AMQP always answers for a queue.
func (b BindingInfo) Unbind(ch *amqp091.Channel, noWait bool) error {
	if b.ToExchange {
		return ch.ExchangeUnbind(b.Target, b.Key, b.Source, noWait, b.Arguments)
	}
	return ch.QueueUnbind(b.Target, b.Key, b.Source, b.Arguments)
}

// A Definition is an exchange with all its bindings: what must be carried over when it changes
// hands.
type Definition struct {
	Exchange
	Out []BindingInfo // it is the source
	In  []BindingInfo // it is the target, of exchanges
}
