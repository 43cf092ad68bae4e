package backend

import (
	"io"

	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/topology"
)

// A Topology is what a backend has the broker hold: exchanges, queues and bindings. What depends on the messages,
// as the bindings to their destinations, is declared when it is first used, and is not in it.
type Topology struct {
	plan  topology.Plan
	vhost string
}

// TopologyOf returns what [Open] with this configuration declares, and for fixedtiers also the queues that
// administrators route existing exchanges through. It asks no broker; without a URL the vhost is "/". Errors
// are ErrConfig.
func TopologyOf(cfg Config) (*Topology, error) {
	cfg = cfg.withDefaults()
	s, opts, err := cfg.strategy()
	if err != nil {
		return nil, err
	}
	vhost := "/"
	if cfg.URL != "" {
		if vhost, err = broker.Vhost(cfg.URL); err != nil {
			return nil, err
		}
	}
	d, err := s.describe(opts, cfg)
	if err != nil {
		return nil, err
	}
	return &Topology{d.Plan, vhost}, nil
}

// WriteDefinitions writes JSON that RabbitMQ imports, with rabbitmqctl import_definitions or the management
// plugin, into the vhost of the configuration's URL.
func (t *Topology) WriteDefinitions(w io.Writer) error { return t.plan.WriteDefinitions(w, t.vhost) }

// WriteText writes one object a line, for people.
func (t *Topology) WriteText(w io.Writer) error { return t.plan.WriteText(w) }
