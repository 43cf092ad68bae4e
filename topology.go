package delayer

import (
	"context"
	"io"
)

// A Topology is what a backend declares at the broker: exchanges, queues and bindings. It does not
// hold the bindings to destinations, which are made when a destination is first used.
type Topology interface {
	// WriteText writes one object a line, for people.
	WriteText(w io.Writer) error
	// WriteDefinitions writes JSON that RabbitMQ imports into a virtual host that exists, with
	// rabbitmqctl import_definitions or the management plugin.
	WriteDefinitions(w io.Writer, vhost string) error
}

// A TopologyRemover is a [Delayer] that can delete what it has declared. All of this module's are.
type TopologyRemover interface {
	// RemoveTopology deletes the exchanges and queues, with every message that waits in them, and
	// the queue for unroutable messages. Destinations and exchanges of the user's stay. A later
	// Publish declares the topology again, and so does another Delayer of the same prefix that is
	// still open: close those first.
	RemoveTopology(ctx context.Context) error
}
