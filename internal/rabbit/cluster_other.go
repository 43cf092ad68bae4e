//go:build !unix

package rabbit

import "context"

// A Cluster is private nodes that have joined; there are none on this system.
type Cluster struct{}

// A Leader is a queue and the node that leads it.
type Leader struct {
	Queue    string
	Messages int
	Node     int
}

// StartCluster returns an error that matches [ErrNone].
func StartCluster(ctx context.Context, o Options, _ int) (*Cluster, error) {
	_, err := startNode(ctx, o)
	return nil, err
}

// Nodes are none.
func (c *Cluster) Nodes() []*Broker { return nil }

// URLs are none.
func (c *Cluster) URLs() []string { return nil }

// String says so.
func (c *Cluster) String() string { return "no cluster" }

// Leaders are none.
func (c *Cluster) Leaders(context.Context) ([]Leader, error) { return nil, ErrNone }

// Close does nothing.
func (c *Cluster) Close() error { return nil }
