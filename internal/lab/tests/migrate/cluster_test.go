package migrate_test

import (
	"errors"
	"net/url"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// held are messages that wait on a node while it is down.
const held = "held"

// TestCluster migrates an exchange whose messages wait on all three nodes of a cluster. It is
// switched and rolled back while all run, and switched again while one is down: that one is named
// wherever its messages matter, and what it has is neither lost nor forgotten.
func TestCluster(t *testing.T) {
	needPlugin(t)
	t.Parallel()
	nodes := clusterWithPlugin(t)
	r := rehearse(t, nodes[0], build(t), rabbitmqctl(t, nodes[0]), "topic")
	r.throughAll(nodes)
	ctl := []string{"--rabbitmqctl", r.ctl}
	const each = 30

	stop := r.publishers(r.wrapped())
	r.fill(pending, each*len(nodes), time.Second, 5*time.Second)
	r.fill(days, each*len(nodes), far*24/25, far)
	require.Contains(t, r.wholeStep("assess", ctl...), "3 nodes")
	for _, step := range [][]string{{"switch", "--mode", "in-place", "--yes"}, {"rollback"}} {
		require.Contains(t, r.wholeStep(step[0], r.flags(step[1:]...)...), "it was there all the time")
	}
	stop()
	r.holds()
	tables := r.tables()
	require.Len(t, tables, len(nodes))
	for _, table := range tables {
		require.Equal(t, each, table.Exchanges[0].Rows, "on node %s", table.Node)
	}

	r.fill(held, each*len(nodes), 3*time.Second, 6*time.Second)
	down := nodes[len(nodes)-1]
	require.NoError(t, down.Stop(t.Context()))
	name := nodeName(t, down)
	require.Contains(t, r.failedStep("assess", ctl...), name+": it does not run")
	require.Contains(t, r.wholeStep("switch", r.flags("--mode", "in-place", "--yes")...), "it was there all the time")
	require.Contains(t, r.wholeStep("status", ctl...), "the counts are too low")
	for _, step := range [][]string{{"evacuate", "--leave", "10s"}, {"retire"}} {
		require.Contains(t, r.failedStep(step[0], r.flags(step[1:]...)...), name)
	}
	require.NoError(t, down.Run(t.Context()))
	r.wholeStep("evacuate", r.flags("--leave", "10s")...)
	r.holds()
	inLadder := r.inLadder()
	assert.Len(t, inLadder, each*len(nodes))
	for id, n := range inLadder {
		assert.Equal(t, 1, n, id)
	}
	r.wholeStep("retire", r.flags()...)
}

// clusterWithPlugin starts three nodes.
func clusterWithPlugin(t *testing.T) []*rabbit.Broker {
	t.Helper()
	plugins := []string{rabbittest.DelayedMessages, managementPlugin}
	c, err := rabbit.StartCluster(t.Context(), rabbit.Options{Plugins: plugins, InMemory: true, Logf: t.Logf}, 3)
	if errors.Is(err, rabbit.ErrNone) {
		rabbittest.Skipf(t, "no cluster can be started: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	if !c.Nodes()[0].HasPlugin(rabbittest.DelayedMessages) {
		rabbittest.Skipf(t, "private nodes have no plugin %s", rabbittest.DelayedMessages)
	}
	return c.Nodes()
}

// throughAll fills the plugin through all nodes in turn.
func (r *rehearsal) throughAll(nodes []*rabbit.Broker) {
	r.Helper()
	for _, b := range nodes[1:] {
		conn, err := amqp091.Dial(b.URL())
		require.NoError(r, err)
		r.Cleanup(func() { _ = conn.Close() })
		r.fillers = append(r.fillers, conn)
	}
}

// failedStep runs a step that must fail, and returns what it says.
func (r *rehearsal) failedStep(step string, args ...string) string {
	r.Helper()
	said, err := r.tryStep(step, args...)
	require.Error(r, err, "%s %v: %s", step, args, said)
	return said
}

// nodeName is what a private node calls itself.
func nodeName(t *testing.T, b *rabbit.Broker) string {
	t.Helper()
	at, err := url.Parse(b.URL())
	require.NoError(t, err)
	return "delayer" + at.Port() + "@localhost"
}
