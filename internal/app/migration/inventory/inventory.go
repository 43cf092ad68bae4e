package inventory

import (
	"cmp"
	"context"
	"errors"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// An Inventory is what one look at a vhost found.
type Inventory struct {
	Vhost         string   // of the AMQP address
	Version       string   // of the broker that answers: "4.0.5"
	ExchangeTypes []string // that the broker knows
	Nodes         []Node
	Features      []Feature

	Exchanges []Exchange   // all of the vhost
	Delayed   []Definition // those of the plugin
}

// A Node is a member of the cluster.
type Node struct {
	Name    string
	Running bool
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

// A Definition is an exchange with all its bindings: what must be carried over when it changes
// hands.
type Definition struct {
	Exchange
	Out []objects.Bound // it is the source
	In  []objects.Bound // it is the target, of exchanges
}

// Look reads what an assessment needs. The user needs the tag administrator: feature flags are told
// to no other.
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
	if err := errors.Join(a.get(ctx, &v.Nodes, "nodes"), a.get(ctx, &v.Features, "feature-flags")); err != nil {
		return v, err
	}
	slices.SortFunc(v.Nodes, func(n, m Node) int { return cmp.Compare(n.Name, m.Name) })
	var err error
	v.Exchanges, err = a.Exchanges(ctx)
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
	for _, x := range v.Exchanges {
		if !x.Delayed() {
			continue
		}
		d, err := a.bound(ctx, x)
		if err != nil {
			return v, err
		}
		v.Delayed = append(v.Delayed, d)
	}
	return v, nil
}
