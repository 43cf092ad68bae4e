package backend

import (
	"context"
	"fmt"
	"io"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/topology"
)

// Open connects to the broker, declares what the backend needs there and returns it ready to
// publish. ctx bounds the opening only. Every error is a *[delayer.Error]: ErrConfig names the key
// that is wrong, ErrUnavailable and ErrAccess concern the broker, ErrConflict says that objects of
// this prefix exist with another configuration. After an error nothing is left open.
func Open(ctx context.Context, cfg Config) (delayer.Delayer, error) {
	r, err := cfg.row()
	if err != nil {
		return nil, err
	}
	return r.open(ctx, cfg)
}

// OpenURL is [Open] with the defaults, for the broker at an address such as
// amqp://guest:guest@localhost:5672/. Everything else is in Config.
func OpenURL(ctx context.Context, url string) (delayer.Delayer, error) {
	return Open(ctx, Config{Options: delayer.Options{URL: url}})
}

// Limits returns what a Delayer of this configuration can do. It asks no broker: with a ladder
// or tiers of quorum queues on RabbitMQ 4.0 to 4.2 MaxPriority is lower. Errors are ErrConfig.
func Limits(cfg Config) (delayer.Limits, error) {
	r, err := cfg.row()
	if err != nil {
		return delayer.Limits{}, err
	}
	return r.limits(cfg)
}

// Topology returns what [Open] with this configuration declares, and for fixedtiers also the queues
// that administrators route existing exchanges through. It asks no broker. Errors are ErrConfig.
func Topology(cfg Config) (topology.Plan, error) {
	r, err := cfg.row()
	if err != nil {
		return topology.Plan{}, err
	}
	return r.topology(cfg)
}

// WriteDefinitions writes the topology of a configuration as JSON that RabbitMQ imports, for the
// virtual host of its URL; without a URL that is "/". Errors are ErrConfig, or those of w.
func WriteDefinitions(w io.Writer, cfg Config) error {
	t, err := Topology(cfg)
	vhost := "/"
	if err == nil && cfg.URL != "" {
		vhost, err = broker.Vhost(cfg.URL)
	}
	if err != nil {
		return err
	}
	return t.WriteDefinitions(w, vhost)
}

// ServeController runs a controller of backend controller and nothing else, until ctx ends. It then
// stops taking messages, waits for those that are being published, returns the others to the broker
// and returns nil. The configuration is that of the Delayers; Controller.Run is ignored. Errors are
// those of Open, and ErrConfig with another backend.
func ServeController(ctx context.Context, cfg Config) error {
	r, err := cfg.row()
	if err != nil {
		return err
	}
	if r.name != controller.Name {
		return engine.ConfigError("backend", fmt.Errorf("%s needs no controller", r.name), "set backend: "+controller.Name)
	}
	cfg.Controller.Options = cfg.Options
	return controller.Serve(ctx, cfg.Controller)
}
