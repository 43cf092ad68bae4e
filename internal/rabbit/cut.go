package rabbit

import "context"

// A caller evaluates an Erlang expression on its node within milliseconds. Not every host can.
type caller interface {
	call(ctx context.Context, expression string) error
}

// CutConnections makes the broker close all connections of its clients.
//
// rabbitmqctl is the way that every broker has. It starts a virtual machine, which takes a second of
// processor time, and several on a busy machine.
func (b *Broker) CutConnections(ctx context.Context) error {
	if host, ok := b.host.(caller); ok {
		if err := host.call(ctx, `rabbit_networking:close_connections(rabbit_networking:connections(), "test")`); err == nil {
			return nil
		}
	}
	_, err := b.Ctl(ctx, "close_all_connections", "test")
	return err
}
