package inventory

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
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
	Pending *int64 // on the node that answered; nil if the broker does not say
}

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

const waitForAnswer = false // the noWait argument of amqp091-go's methods

// Bind makes the binding.
func (b BindingInfo) Bind(ch *amqp091.Channel) error {
	if b.ToExchange {
		return ch.ExchangeBind(b.Target, b.Key, b.Source, waitForAnswer, b.Arguments)
	}
	return ch.QueueBind(b.Target, b.Key, b.Source, waitForAnswer, b.Arguments)
}

// Unbind removes the binding.
func (b BindingInfo) Unbind(ch *amqp091.Channel) error {
	if b.ToExchange {
		return ch.ExchangeUnbind(b.Target, b.Key, b.Source, waitForAnswer, b.Arguments)
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

// Look reads what an assessment needs. What the API does not tell its user is in Unseen; without
// exchanges there is an error.
//
// The broker scans the plugin's table once for each exchange of the plugin.
func (a *API) Look(ctx context.Context) (Inventory, error) {
	v := Inventory{Vhost: a.vhost}
	var overview struct {
		Version string `json:"rabbitmq_version"`
		Types   []struct {
			Name string `json:"name"`
		} `json:"exchange_types"`
	}
	if err := a.get(ctx, &overview, "overview"); err != nil {
		return v, err
	}
	v.Version = overview.Version
	for _, kind := range overview.Types {
		v.ExchangeTypes = append(v.ExchangeTypes, kind.Name)
	}
	if err := a.lookAside(ctx, &v); err != nil {
		return v, err
	}
	all, err := a.exchanges(ctx)
	var e *delayer.Error
	if v.Enabled(Khepri) && !errors.Is(err, delayer.ErrAccess) && errors.As(err, &e) {
		with := *e // RabbitMQ counts what waits, in a table that is gone
		with.Hint = "the feature flag " + Khepri + " was enabled while the plugin ran: that deletes its tables with all that waited, " +
			"and RabbitMQ cannot list its exchanges. Restart the nodes, or disable and enable the plugin: then it works, and is empty"
		err = &with
	}
	if err != nil {
		return v, err
	}
	for _, x := range all {
		v.Exchanges = append(v.Exchanges, x.info())
		if x.Type != DelayedMessage {
			continue
		}
		d, err := a.bound(ctx, x.info())
		if err != nil {
			return v, err
		}
		v.Delayed = append(v.Delayed, Delayed{d, x.Pending})
	}
	return v, nil
}

// lookAside asks for what an assessment can do without.
func (a *API) lookAside(ctx context.Context, v *Inventory) error {
	for _, aside := range []struct {
		what string
		look func(context.Context, *Inventory) error
	}{
		{"the nodes", a.lookNodes},
		{"the feature flags", func(ctx context.Context, v *Inventory) error { return a.get(ctx, &v.Features, "feature-flags") }},
	} {
		err := aside.look(ctx, v)
		var e *delayer.Error
		switch {
		case errors.Is(err, delayer.ErrAccess) && errors.As(err, &e):
			v.Unseen = append(v.Unseen, Unseen{aside.what, "user " + a.client.User() + " of the management API: " + e.Cause.Error()})
		case err != nil:
			return err
		}
	}
	return nil
}

func (a *API) lookNodes(ctx context.Context, v *Inventory) error {
	var found []struct {
		Name         string `json:"name"`
		Running      bool   `json:"running"`
		Applications []struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"applications"`
	}
	r := management.Request{Op: op, Path: "nodes", Query: url.Values{"columns": {"name,running,applications"}}}
	if err := a.client.Get(ctx, r, &found); err != nil {
		return err
	}
	for _, n := range found {
		node := Node{Name: n.Name, Running: n.Running}
		for _, app := range n.Applications {
			if app.Name == "rabbitmq_delayed_message_exchange" {
				node.Plugin = app.Version
			}
		}
		v.Nodes = append(v.Nodes, node)
	}
	slices.SortFunc(v.Nodes, func(n, m Node) int { return cmp.Compare(n.Name, m.Name) })
	return nil
}
