package rabbit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Cluster is private nodes of the rabbitmq-server on this machine that have joined. Each is a
// [Broker] of its own, to be stopped, killed and paused; all end with this process.
type Cluster struct {
	nodes []*Broker
	names []string // what the nodes call themselves
}

// StartCluster starts size nodes and waits until they have joined, for four minutes at most.
// Options.Choice is not looked at: a cluster is always of private nodes, and without a
// rabbitmq-server the error matches [ErrNone].
func StartCluster(ctx context.Context, o Options, size int) (*Cluster, error) {
	if os.Getenv(choiceVariable) == None {
		return nil, errNotWanted
	}
	ctx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	c := &Cluster{}
	ports := make([]nodePorts, size)
	for i := range ports {
		var err error
		if ports[i], err = newNodePorts(); err != nil {
			return nil, err
		}
		ports[i].epmd = ports[0].epmd // which the first one's script runs
		c.names = append(c.names, ports[i].node())
	}
	// Without rabbitmq.conf (see writeNodeFiles). A minority pauses itself, as RabbitMQ recommends
	// for three nodes. Nodes miss one that is paused within ten seconds instead of a minute.
	o.Args = strings.TrimSpace(fmt.Sprintf("%s -kernel net_ticktime 8 -rabbit cluster_nodes {['%s'],disc}"+
		" -rabbit cluster_partition_handling pause_minority", o.Args, strings.Join(c.names, "','")))
	cookie := rand.Text()
	for i, p := range ports { // one after the other: the first founds what the others join
		b, err := startNode(ctx, nodeSpec{Options: o, ports: p, cookie: cookie, guest: i > 0})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("rabbit: node %d of a cluster: %w", i+1, err), c.Close())
		}
		c.nodes = append(c.nodes, b)
	}
	if _, err := c.nodes[0].Ctl(ctx, "await_online_nodes", strconv.Itoa(size)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Nodes are the cluster's brokers.
func (c *Cluster) Nodes() []*Broker { return c.nodes }

// URLs are the AMQP URLs of all nodes, with credentials.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.nodes))
	for i, b := range c.nodes {
		urls[i] = b.URL()
	}
	return urls
}

// A Leader is a queue, how many messages are ready in it, and the index of the node that leads it:
// −1 where there is none at the moment.
type Leader struct {
	Queue    string
	Messages int
	Node     int
}

// Leaders lists the queues, asked of a node that runs, where it can say who leads them.
func (c *Cluster) Leaders(ctx context.Context) ([]Leader, error) {
	for _, b := range c.nodes {
		if !b.own.running() {
			continue
		}
		out, err := b.Ctl(ctx, "list_queues", "--silent", "messages", "leader", "name")
		if err != nil {
			return nil, err
		}
		return c.parseLeaders(out), nil
	}
	return nil, errors.New("rabbit: no node of the cluster runs")
}

func (c *Cluster) parseLeaders(out string) []Leader {
	var leaders []Leader
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if len(fields) != 3 {
			continue
		}
		messages, _ := strconv.Atoi(fields[0]) // empty where the queue has no leader
		leaders = append(leaders, Leader{Queue: fields[2], Messages: messages, Node: slices.Index(c.names, fields[1])})
	}
	return leaders
}

// Close ends all nodes and removes what they left. It may be called more than once.
func (c *Cluster) Close() error {
	var errs []error
	for _, b := range slices.Backward(c.nodes) { // the first one's script runs the epmd of all
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
