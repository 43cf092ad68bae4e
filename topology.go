package delayer

import (
	"context"
	"io"
)

// A Topology lists the exchanges, queues and bindings that a backend declares. Bindings to
// destinations are not among them: they are made when a destination is first used.
type Topology interface {
	// WriteText writes one object a line, for people.
	WriteText(w io.Writer) error
	// WriteDefinitions writes JSON for rabbitmqctl import_definitions or the management plugin. The
	// virtual host must exist.
	WriteDefinitions(w io.Writer, vhost string) error
}

// A TopologyRemover is a [Delayer] that can delete what it has declared. All backends of this
// module implement it.
type TopologyRemover interface {
	// RemoveTopology deletes the exchanges and queues with every message in them, the queues for
	// misrouted and unroutable messages included. Destinations stay.
	//
	// A later Publish declares the topology again. So does another Delayer of the same prefix that
	// is still open: close it first.
	RemoveTopology(ctx context.Context) error
}
