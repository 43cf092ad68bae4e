package inventory

import (
	"context"
	"strings"
)

// Bindings returns the bindings of an exchange: those that it is the source of, and those that it
// is the target of. The broker does not scan the plugin's table for the answer.
func (a *API) Bindings(ctx context.Context, exchange string) (out, in []Binding, err error) {
	d, err := a.bound(ctx, Exchange{Name: exchange})
	return d.Out, d.In, err
}

// QueuesNamed lists the queues whose names begin with a text.
func (a *API) QueuesNamed(ctx context.Context, start string) ([]string, error) {
	found, err := a.queues(ctx, start)
	var names []string
	for _, q := range found {
		if strings.HasPrefix(q.Name, start) {
			names = append(names, q.Name)
		}
	}
	return names, err
}

// Published returns how many messages clients have published to an exchange since its statistics
// began. The API counts them a few seconds late.
func (a *API) Published(ctx context.Context, exchange string) (int64, error) {
	var x struct {
		Stats struct {
			In int64 `json:"publish_in"`
		} `json:"message_stats"`
	}
	err := a.get(ctx, &x, "exchanges", a.vhost, exchange)
	return x.Stats.In, err
}
