// Package inventory reads what a migration must know of a vhost from the broker's management API.
// It changes nothing.
package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// API is the management API of one vhost.
type API struct {
	client *management.Client
	vhost  string

	// Within is how long an answer may take for which the broker does not scan the plugin's table.
	// 0: until ctx ends.
	Within time.Duration
}

// New is the API of a vhost. It asks nothing yet. A client without a timeout of its own is best: a
// broker that scans the plugin's table takes its time.
func New(client *management.Client, vhost string) *API { return &API{client: client, vhost: vhost} }

// Definition returns an exchange with all its bindings. An exchange or vhost that does not exist is
// an error that names it.
//
// Where the exchange is one of the plugin, the broker scans the plugin's table for the answer.
func (a *API) Definition(ctx context.Context, exchange string) (Definition, error) {
	x, err := a.Exchange(ctx, exchange)
	if err != nil {
		return Definition{}, err
	}
	return a.bound(ctx, x)
}

// Exchange is Definition without the bindings.
func (a *API) Exchange(ctx context.Context, exchange string) (Exchange, error) {
	var x apiExchange
	err := a.scan(ctx, &x, "exchanges", a.vhost, exchange)
	if errors.Is(err, delayer.ErrNotFound) {
		if err = a.Reachable(ctx); err == nil { // so it is not the vhost that does not exist
			err = &delayer.Error{
				Op: op, Object: fmt.Sprintf("exchange %q", exchange), Kind: delayer.ErrUnroutable,
				Cause: fmt.Errorf("it does not exist in vhost %q", a.vhost), Hint: "delayer migrate assess lists those of the plugin",
			}
		}
	}
	return x.info(), err
}

func (a *API) bound(ctx context.Context, x Exchange) (Definition, error) {
	d := Definition{Exchange: x}
	var err error
	if d.Out, err = a.bindings(ctx, x.Name, "source"); err != nil {
		return d, err
	}
	d.In, err = a.bindings(ctx, x.Name, "destination")
	return d, err
}

// bindings are those of an exchange that is their source or their destination. The broker does not
// scan the plugin's table for the answer.
func (a *API) bindings(ctx context.Context, exchange, end string) (bindings []objects.Bound, err error) {
	if err := a.get(ctx, &bindings, "exchanges", a.vhost, exchange, "bindings", end); err != nil {
		return nil, err
	}
	slices.SortFunc(bindings, func(b, c objects.Bound) int {
		return cmp.Or(cmp.Compare(b.Source, c.Source), cmp.Compare(b.Target, c.Target), cmp.Compare(b.Key, c.Key),
			cmp.Compare(fmt.Sprint(b.Args), fmt.Sprint(c.Args)))
	})
	return bindings, nil
}

// Reachable asks whether the API answers, lets the user in and knows the vhost.
func (a *API) Reachable(ctx context.Context) error {
	const everyVhostHas = "amq.direct"
	var x apiExchange
	err := a.get(ctx, &x, "exchanges", a.vhost, everyVhostHas)
	if !errors.Is(err, delayer.ErrNotFound) {
		return err
	}
	return &delayer.Error{
		Op: op, Object: fmt.Sprintf("vhost %q", a.vhost), Kind: delayer.ErrNotFound,
		Cause: fmt.Errorf("it does not exist at %v, or user %q may not see it", a.client, a.client.User()),
		Hint:  "the vhost is the one of the AMQP URL; rabbitmqctl list_vhosts and list_permissions show them",
	}
}

// Exchanges returns all exchanges of the vhost, sorted by name.
//
// The broker scans the plugin's table for the answer, once for each exchange of the plugin: do not
// poll. It is one request, because the broker would do so for each of several pages.
func (a *API) Exchanges(ctx context.Context) ([]Exchange, error) {
	var found []apiExchange
	err := a.scan(ctx, &found, "exchanges", a.vhost)
	if errors.Is(err, delayer.ErrNotFound) {
		err = a.Reachable(ctx)
	}
	all := make([]Exchange, len(found))
	for i, x := range found {
		all[i] = x.info()
	}
	slices.SortFunc(all, func(x, y Exchange) int { return cmp.Compare(x.Name, y.Name) })
	return all, err
}

const op = "look at"

func (a *API) get(ctx context.Context, into any, path ...string) error {
	if a.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.Within)
		defer cancel()
	}
	return a.scan(ctx, into, path...)
}

// scan may have the broker scan the plugin's table.
func (a *API) scan(ctx context.Context, into any, path ...string) error {
	return a.client.Get(ctx, management.Request{Op: op, Path: management.Path(path...)}, into)
}

type apiExchange struct {
	Exchange
	Arguments management.Arguments `json:"arguments"`
}

func (x apiExchange) info() Exchange {
	x.Exchange.Arguments = x.Arguments.Table()
	return x.Exchange
}
