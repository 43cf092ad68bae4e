package inventory

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
)

// pluginName is the plugin's application.
const pluginName = "rabbitmq_delayed_message_exchange"

// Look reads what an assessment needs. user is that of the AMQP address. Queues are listed if their
// names contain one of the texts in queues. What the API does not tell its user is in Unseen;
// without exchanges there is an error.
//
// The broker scans the plugin's table once for each exchange of the plugin.
func (a *API) Look(ctx context.Context, user string, queues []string) (Inventory, error) {
	v := Inventory{Vhost: a.vhost, User: user}
	if err := a.Reachable(ctx); err != nil {
		return v, err
	}
	for _, step := range []func(context.Context, *Inventory) error{a.lookOverview, a.lookAside, a.lookExchanges} {
		if err := step(ctx, &v); err != nil {
			return v, err
		}
	}
	for _, text := range queues {
		found, err := a.queues(ctx, text)
		if err != nil {
			return v, err
		}
		v.Queues = append(v.Queues, found...)
	}
	slices.SortFunc(v.Queues, func(p, q Queue) int { return cmp.Compare(p.Name, q.Name) })
	v.Queues = slices.CompactFunc(v.Queues, func(p, q Queue) bool { return p.Name == q.Name })
	return v, nil
}

func (a *API) lookOverview(ctx context.Context, v *Inventory) error {
	var overview struct {
		Version string `json:"rabbitmq_version"`
		Types   []struct {
			Name string `json:"name"`
		} `json:"exchange_types"`
	}
	if err := a.get(ctx, &overview, "overview"); err != nil {
		return err
	}
	v.Version = overview.Version
	for _, kind := range overview.Types {
		v.ExchangeTypes = append(v.ExchangeTypes, kind.Name)
	}
	return nil
}

func (a *API) lookExchanges(ctx context.Context, v *Inventory) error {
	all, err := a.exchanges(ctx)
	var e *delayer.Error
	if v.Enabled(Khepri) && !errors.Is(err, delayer.ErrAccess) && errors.As(err, &e) {
		with := *e // RabbitMQ counts what waits, in a table that is gone
		with.Hint = "the feature flag " + Khepri + " was enabled while the plugin ran: that deletes its tables with all that waited, " +
			"and RabbitMQ cannot list its exchanges. Restart the nodes, or disable and enable the plugin: then it works, and is empty"
		err = &with
	}
	if err != nil {
		return err
	}
	for _, x := range all {
		v.Exchanges = append(v.Exchanges, x.info())
		if x.Type != DelayedMessage {
			continue
		}
		d, err := a.bound(ctx, x.info())
		if err != nil {
			return err
		}
		v.Delayed = append(v.Delayed, Delayed{d, x.Pending, x.Stats.In.Rate})
	}
	return nil
}

// lookAside asks for what an assessment can do without.
func (a *API) lookAside(ctx context.Context, v *Inventory) error {
	for _, aside := range []struct {
		what string
		look func() error
	}{
		{"the nodes", func() (err error) { v.Nodes, err = a.nodes(ctx); return err }},
		{"the feature flags", func() error { return a.get(ctx, &v.Features, "feature-flags") }},
		{"the policies", func() error {
			if err := a.get(ctx, &v.Policies, "policies", a.vhost); err != nil {
				return err
			}
			return a.get(ctx, &v.OperatorPolicies, "operator-policies", a.vhost)
		}},
		{"the permissions of user " + v.User, func() error { return a.lookPermission(ctx, v) }},
		{"the shovels", func() error { return a.lookShovels(ctx, v) }},
	} {
		err := aside.look()
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

func (a *API) nodes(ctx context.Context) ([]Node, error) {
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
		return nil, err
	}
	nodes := make([]Node, len(found))
	for i, n := range found {
		nodes[i] = Node{Name: n.Name, Running: n.Running}
		for _, app := range n.Applications {
			if app.Name == pluginName {
				nodes[i].Plugin = app.Version
			}
		}
	}
	slices.SortFunc(nodes, func(n, m Node) int { return cmp.Compare(n.Name, m.Name) })
	return nodes, nil
}

// lookPermission reads the user's patterns. A user of RabbitMQ's own without any may do nothing. Of
// a user that another authentication backend knows, nothing can be seen here.
func (a *API) lookPermission(ctx context.Context, v *Inventory) error {
	var p Permission
	err := a.get(ctx, &p, "permissions", a.vhost, v.User)
	if errors.Is(err, delayer.ErrNotFound) {
		err = a.get(ctx, &struct{}{}, "users", v.User)
		if errors.Is(err, delayer.ErrNotFound) {
			v.Unseen = append(v.Unseen, Unseen{"the permissions of user " + v.User, "it is no user of RabbitMQ's own: misspelt, or of another authentication backend"})
			return nil
		}
	}
	if err == nil {
		v.Permission = &p
	}
	return err
}

// lookShovels reads dynamic shovels. A broker without that plugin has none.
func (a *API) lookShovels(ctx context.Context, v *Inventory) error {
	var found []struct {
		Name  string `json:"name"`
		Value struct {
			Source string `json:"src-exchange"`
			Target string `json:"dest-exchange"`
		} `json:"value"`
	}
	err := a.get(ctx, &found, "parameters", "shovel", a.vhost)
	if errors.Is(err, delayer.ErrNotFound) {
		return nil
	}
	for _, s := range found {
		v.Shovels = append(v.Shovels, Shovel{s.Name, s.Value.Source, s.Value.Target})
	}
	return err
}

func (a *API) queues(ctx context.Context, text string) ([]Queue, error) {
	type apiQueue struct {
		Name      string               `json:"name"`
		Arguments management.Arguments `json:"arguments"`
		Messages  int64                `json:"messages"`
	}
	r := management.Request{
		Op: op, Path: management.Path("queues", a.vhost), Query: url.Values{"columns": {"name,arguments,messages"}},
	}
	found, err := management.List[apiQueue](ctx, a.client, r, text)
	queues := make([]Queue, len(found))
	for i, q := range found {
		queues[i] = Queue{q.Name, q.Arguments.Table(), q.Messages}
	}
	return queues, err
}
