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

// Look reads what an assessment needs. What the API does not tell its user is in Unseen; without
// exchanges there is an error.
//
// The broker scans the plugin's table once for each exchange of the plugin.
func (a *API) Look(ctx context.Context) (Inventory, error) {
	v := Inventory{Vhost: a.vhost}
	for _, step := range []func(context.Context, *Inventory) error{a.lookOverview, a.lookAside, a.lookExchanges} {
		if err := step(ctx, &v); err != nil {
			return v, err
		}
	}
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
		look func(context.Context, *Inventory) error
	}{
		{"the nodes", a.lookNodes},
		{"the feature flags", func(ctx context.Context, v *Inventory) error { return a.get(ctx, &v.Features, "feature-flags") }},
		{"the shovels", a.lookShovels},
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
			if app.Name == pluginName {
				node.Plugin = app.Version
			}
		}
		v.Nodes = append(v.Nodes, node)
	}
	slices.SortFunc(v.Nodes, func(n, m Node) int { return cmp.Compare(n.Name, m.Name) })
	return nil
}

// lookShovels reads dynamic shovels. A broker without that plugin has none.
func (a *API) lookShovels(ctx context.Context, v *Inventory) error {
	var found []struct {
		Name  string `json:"name"`
		Value struct {
			Target string `json:"dest-exchange"`
		} `json:"value"`
	}
	err := a.get(ctx, &found, "parameters", "shovel", a.vhost)
	if errors.Is(err, delayer.ErrNotFound) {
		return nil
	}
	for _, s := range found {
		v.Shovels = append(v.Shovels, Shovel{s.Name, s.Value.Target})
	}
	return err
}
