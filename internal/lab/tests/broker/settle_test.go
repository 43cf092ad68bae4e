package broker_test

import (
	"net/url"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// TestApply_CrashRightAfter: what is confirmed right after its queue was declared is there after a crash.
func TestApply_CrashRightAfter(t *testing.T) {
	b := rabbittest.Alone(t)
	queue := rabbittest.Prefix(t)
	_, c := open(t, b.URL(), func() {})
	plan := topology.Plan{Queues: []topology.Queue{{Name: queue, Args: amqp091.Table{"x-queue-type": "quorum"}}}}
	r := rabbittest.NewRig(t, b)
	require.NoError(t, objects.Of(c, "test").Apply(within(t), plan))
	r.Publish("", queue, amqp091.Publishing{Body: []byte("confirmed"), DeliveryMode: amqp091.Persistent})
	require.NoError(t, b.Kill())
	require.NoError(t, b.Run(t.Context()))
	r = rabbittest.NewRig(t, b)
	require.Equal(t, "confirmed", string(r.Take(queue).Body))
}

// TestApply_SettleRefused: a user who may declare the queue of the plan, and no other, declares it.
func TestApply_SettleRefused(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	queue := rabbittest.Prefix(t)
	ctl := func(args ...string) string {
		out, err := b.Ctl(within(t), args...)
		require.NoError(t, err, out)
		return out
	}
	ctl("add_user", queue, "secret")
	t.Cleanup(func() { ctl("delete_user", queue) })
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	u.User = url.UserPassword(queue, "secret")
	plan := topology.Plan{Queues: []topology.Queue{{Name: queue, Args: amqp091.Table{"x-queue-type": "quorum"}}}}
	for _, configure := range []string{"^" + queue + "$", "^" + queue} {
		ctl("set_permissions", queue, configure, "^$", "^"+queue)
		_, c := open(t, u.String(), func() {})
		live := objects.Of(c, "test")
		require.NoError(t, live.Apply(within(t), plan), configure)
		require.NotContains(t, ctl("list_queues", "name"), queue+".settle.")
		require.NoError(t, live.Remove(within(t), plan))
	}
}
