package servecmd

import (
	"fmt"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/rebind"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// movers move the bindings that others make on exchanges. They need a Control before they run.
func movers(settings engine.Settings, specs []entry.Spec) (all []*rebind.Mover, err error) {
	for _, s := range specs {
		if !s.MoveBindings {
			continue
		}
		if settings.Management == "" {
			return nil, engine.ConfigError("serve.exchanges", fmt.Errorf("move_bindings of %q needs the management API", s.Name),
				"write management: http://user:password@host:15672, or leave out move_bindings")
		}
		client, vhost, err := settings.API()
		if err != nil {
			return nil, err
		}
		all = append(all, &rebind.Mover{Spec: s, Prefix: settings.Prefix, API: inventory.New(client, vhost)})
	}
	return all, nil
}
