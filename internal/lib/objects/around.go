package objects

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/topology"
)

// ofEntry is what the name of an entry's first queue has between the prefix and the exchange: see
// package entry.
const ofEntry = ".serve.queue."

const goesAround = "it goes around delayer serve, and gets messages at once, whatever their delay: bind to the exchange that serve publishes to, and delete this binding"

// Around asks the management API for bindings that lead from an exchange of delayer serve to
// something else than the queue that serve reads. One of an exchange that is still the
// x-delayed-message plugin's does no harm.
func Around(ctx context.Context, api *management.Client, vhost, prefix string) (found []Difference, err error) {
	queues, err := management.List[struct{ Name string }](ctx, api, management.Request{
		Op: "look at", Path: management.Path("queues", vhost), Query: url.Values{"columns": {"name"}},
	}, prefix+ofEntry)
	for _, q := range queues {
		exchange, is := strings.CutPrefix(q.Name, prefix+ofEntry)
		if !is {
			continue
		}
		for _, lead := range [...]topology.Binding{
			{Source: exchange, Target: q.Name},
			{Source: prefix + ".serve.all." + exchange, Target: q.Name},
			{Source: prefix + ".serve.expired." + exchange, Target: prefix + ".serve.back." + exchange},
		} {
			around, err := leadAround(ctx, api, vhost, lead)
			if err != nil && !errors.Is(err, delayer.ErrNotFound) { // only direct exchanges have the second
				return nil, err
			}
			for _, b := range around {
				found = append(found, Difference{IsSurplus, describeBinding(b.Binding), goesAround})
			}
		}
	}
	return found, err
}

// leadAround returns the bindings of an exchange that are not the one that it should have.
func leadAround(ctx context.Context, api *management.Client, vhost string, lead topology.Binding) (around []Bound, err error) {
	ask := func(into any, path ...string) error {
		return api.Get(ctx, management.Request{
			Op: "look at", Path: management.Path(append([]string{"exchanges", vhost, lead.Source}, path...)...),
		}, into)
	}
	if err = ask(&around, "bindings", "source"); err != nil {
		return nil, err
	}
	all := len(around)
	around = slices.DeleteFunc(around, func(b Bound) bool {
		return b.Target == lead.Target && !b.ToExchange || b.Target == lead.Source && b.ToExchange
	})
	if len(around) < all || len(around) == 0 {
		return around, nil
	}
	// A direct exchange leads to serve without a binding, and one of the plugin not at all. The broker
	// counts what waits in one of the plugin for this answer.
	var x struct{ Type string }
	if err = ask(&x); x.Type == "x-delayed-message" {
		around = nil
	}
	return around, err
}
