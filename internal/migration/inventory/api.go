// Package inventory reads what a migration must know of a vhost from the broker's management API.
// It changes nothing.
package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/management"
)

// API is the management API of one vhost.
type API struct {
	client *management.Client
	vhost  string
}

// New is the API of a vhost. It asks nothing yet. A client without a timeout of its own is best: a
// broker that scans the plugin's table takes its time.
func New(client *management.Client, vhost string) *API { return &API{client, vhost} }

// Definition returns an exchange with all its bindings. An exchange or vhost that does not exist is
// an error that names it.
//
// Where the exchange is one of the plugin, the broker scans the plugin's table for the answer.
func (a *API) Definition(ctx context.Context, exchange string) (Definition, error) {
	var x apiExchange
	err := a.get(ctx, &x, "exchanges", a.vhost, exchange)
	if errors.Is(err, management.ErrNotFound) {
		return Definition{}, a.missing(ctx, exchange)
	}
	if err != nil {
		return Definition{}, err
	}
	return a.bound(ctx, x.exchange())
}

// bound adds the bindings to an exchange.
func (a *API) bound(ctx context.Context, x Exchange) (Definition, error) {
	d := Definition{Exchange: x}
	var err error
	if d.Out, err = a.bindings(ctx, x.Name, "source"); err != nil {
		return d, err
	}
	d.In, err = a.bindings(ctx, x.Name, "destination")
	return d, err
}

func (a *API) bindings(ctx context.Context, exchange, end string) ([]Binding, error) {
	var found []apiBinding
	if err := a.get(ctx, &found, "exchanges", a.vhost, exchange, "bindings", end); err != nil {
		return nil, err
	}
	bindings := make([]Binding, len(found))
	for i, b := range found {
		bindings[i] = b.binding()
	}
	slices.SortFunc(bindings, func(b, c Binding) int {
		return cmp.Or(cmp.Compare(b.Source, c.Source), cmp.Compare(b.Target, c.Target), cmp.Compare(b.Key, c.Key),
			cmp.Compare(fmt.Sprint(b.Arguments), fmt.Sprint(c.Arguments)))
	})
	return bindings, nil
}

// missing tells an exchange that does not exist from a vhost that does not.
func (a *API) missing(ctx context.Context, exchange string) error {
	if err := a.Reachable(ctx); err != nil {
		return err
	}
	return &delayer.Error{
		Op: op, Object: fmt.Sprintf("exchange %q", exchange), Kind: delayer.ErrUnroutable,
		Cause: fmt.Errorf("it does not exist in vhost %q", a.vhost), Hint: "delayer migrate assess lists those of the plugin",
	}
}

// Reachable asks whether the API answers, lets the user in and knows the vhost.
func (a *API) Reachable(ctx context.Context) error {
	const everyVhostHas = "amq.direct"
	var x apiExchange
	err := a.get(ctx, &x, "exchanges", a.vhost, everyVhostHas)
	if !errors.Is(err, management.ErrNotFound) {
		return err
	}
	return &delayer.Error{
		Op: op, Object: fmt.Sprintf("vhost %q", a.vhost), Kind: delayer.ErrUnavailable,
		Cause: fmt.Errorf("it does not exist at %v, or user %q may not see it", a.client, a.client.User()),
		Hint:  "the vhost is the one of the AMQP URL; rabbitmqctl list_vhosts and list_permissions show them",
	}
}

// Delayed returns all exchanges of the vhost that are the plugin's, sorted by name.
//
// The broker scans the plugin's table for the answer, once for each exchange: do not poll.
func (a *API) Delayed(ctx context.Context) ([]Exchange, error) {
	all, err := a.exchanges(ctx)
	if err != nil {
		return nil, err
	}
	var delayed []Exchange
	for _, x := range all {
		if x.Type == DelayedMessage {
			delayed = append(delayed, x.exchange())
		}
	}
	return delayed, nil
}

// exchanges lists those of the vhost in one request, sorted by name. Pages would make the broker
// scan the plugin's table once for each page.
func (a *API) exchanges(ctx context.Context) ([]apiExchange, error) {
	var all []apiExchange
	err := a.get(ctx, &all, "exchanges", a.vhost)
	if errors.Is(err, management.ErrNotFound) {
		err = a.Reachable(ctx)
	}
	slices.SortFunc(all, func(x, y apiExchange) int { return cmp.Compare(x.Name, y.Name) })
	return all, err
}

// Nodes returns the names of the running nodes of the cluster, sorted.
func (a *API) Nodes(ctx context.Context) ([]string, error) {
	nodes, err := a.nodes(ctx)
	if err != nil {
		return nil, err
	}
	var running []string
	for _, n := range nodes {
		if n.Running {
			running = append(running, n.Name)
		}
	}
	return running, nil
}

// op is the operation that an error names.
const op = "look at"

// get asks for what is at a path.
func (a *API) get(ctx context.Context, into any, path ...string) error {
	return a.client.Get(ctx, management.Request{Op: op, Path: management.Path(path...)}, into)
}
