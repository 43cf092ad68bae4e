package migrate_test

import (
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/assess"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// theNode is the name of the broker's node.
func (r *rig) theNode() string {
	r.Helper()
	nodes, err := r.control.Nodes(r.Context())
	require.NoError(r, err)
	require.Len(r, nodes, 1)
	return nodes[0]
}

// rows reads all rows of the exchange in batches.
func (r *rig) rows(q node.Query) (all []node.Row) {
	r.Helper()
	q.Vhost, q.Exchanges = "/", []string{r.name}
	for name := r.theNode(); ; {
		batch, err := r.control.Rows(r.Context(), name, q)
		require.NoError(r, err)
		require.LessOrEqual(r, len(batch.Rows), q.MaxRows)
		if all = append(all, batch.Rows...); batch.Last {
			return all
		}
		q.After = batch.Next
	}
}

func (r *rig) remove(rows ...node.Row) int {
	r.Helper()
	n, err := r.control.Remove(r.Context(), r.theNode(), "/", rows)
	require.NoError(r, err)
	return n
}

// TestNode_Batches: each row is read once, in its order, however the batches are cut; its id is
// always the same. A large body is read whole.
func TestNode_Batches(t *testing.T) {
	t.Parallel()
	r := newDelayed(t, "topic")
	const messages = 36
	for i := range messages {
		r.PublishDelayed(r.name, "key", asked(time.Duration(2+i%3)*24*time.Hour, amqp091.Publishing{Body: make([]byte, 1000)}))
	}
	all := r.rows(node.Query{MaxRows: 1000, MaxBytes: 1 << 30})
	require.Len(t, all, messages)
	for i := range messages - 1 {
		assert.LessOrEqual(t, all[i].Due, all[i+1].Due)
	}
	assert.Equal(t, all, r.rows(node.Query{MaxRows: 10, MaxBytes: 1 << 30}))
	assert.Equal(t, all, r.rows(node.Query{MaxRows: 1000, MaxBytes: 9500}))
	assert.Len(t, r.rows(node.Query{MaxRows: 1000, MaxBytes: 1 << 30, Later: 84 * time.Hour}), messages/3, "those that are due later")
	assert.Equal(t, 5, r.remove(all[:5]...))
	assert.Equal(t, all[5:], r.rows(node.Query{MaxRows: 1000, MaxBytes: 1 << 30}))
	assert.Equal(t, messages-5, r.remove(all...))

	body := make([]byte, 16<<20)
	_, _ = rand.Read(body)
	r.PublishDelayed(r.name, "key", asked(time.Hour, amqp091.Publishing{Body: body}))
	rows := r.rows(node.Query{MaxRows: 10, MaxBytes: 1 << 20})
	require.Len(t, rows, 1)
	assert.True(t, string(body) == string(rows[0].Body), "the body is another")
	assert.Equal(t, 1, r.remove(rows...))
}

// TestNode_RemovedFirst: the plugin goes on if the message that its timer waits for is removed.
// A removal that comes too late proves nothing, and is tried again with more time.
func TestNode_RemovedFirst(t *testing.T) {
	t.Parallel()
	r := newDelayed(t, topicOrFanout(t))
	in := r.Consume(r.queue)
	for delay := 3 * time.Second; ; delay *= 2 {
		stays := "stays " + delay.String()
		r.PublishDelayed(r.name, "key", asked(delay, amqp091.Publishing{MessageId: "removed " + delay.String()}))
		r.PublishDelayed(r.name, "key", asked(delay+time.Second, amqp091.Publishing{MessageId: stays}))
		rows := r.rows(node.Query{MaxRows: 1, MaxBytes: 1 << 20})
		removed := len(rows) == 2 && r.remove(rows[0]) == 1
		for r.receive(in, 1)[0].MessageId != stays {
			assert.False(t, removed, "what was removed arrives")
		}
		if removed {
			return
		}
	}
}

// TestReshape_NotLocked: the node changes nothing for a tool that does not hold the lock, which is
// also one that reached another broker.
func TestReshape_NotLocked(t *testing.T) {
	t.Parallel()
	r := newDelayed(t, "topic")
	s, release := r.swapper()
	defer release()
	reshaping := node.Reshaping{
		Vhost: "/", Exchange: r.name, Lock: s.Lock.Name, Token: "another's", Behind: record.Name(r.Prefix, r.name),
		Hold: record.Hold(r.Prefix, r.name), Queue: r.served().Queue, Routes: "topic", Type: "topic", Shape: node.Plain,
	}
	const notLocked = "the node does not see this tool's lock"
	require.ErrorContains(t, r.node.Reshape(t.Context(), reshaping), notLocked)
	require.True(t, r.definition().Delayed())
	require.ErrorContains(t, r.node.CanReshape(t.Context(), reshaping), notLocked)
	reshaping.Token = s.Lock.Token
	require.NoError(t, r.node.CanReshape(t.Context(), reshaping))
	missing := reshaping
	missing.Exchange = "missing"
	require.ErrorContains(t, r.node.CanReshape(t.Context(), missing), "it does not exist there")
	reshaping.Routes, reshaping.Type = "direct", "direct"
	require.NoError(t, r.Ch.ExchangeDelete(r.name, false, false))
	require.NoError(t, r.Ch.ExchangeDeclare(r.name, "topic", true, false, false, false, nil))
	require.ErrorContains(t, r.node.Reshape(t.Context(), reshaping), "someone has declared it with another type")
}

// TestLook sees each exchange of the plugin in a vhost with a slash, with names that need escaping,
// arguments of 64 bits, bindings both ways and what waits.
func TestLook(t *testing.T) {
	t.Parallel()
	const vhost, odd = "/look at/it", `ca fé/"a'%2F?#`
	r := newRigAt(t, needPlugin(t), vhost)
	b, ch, api := r.Broker, r.Ch, r.api
	const big = int64(1)<<53 + 1
	require.NoError(t, ch.ExchangeDeclare(odd, "x-delayed-message", true, false, true, false,
		amqp091.Table{"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"}))
	require.NoError(t, ch.ExchangeDeclare("plain", "x-delayed-message", false, false, false, false, amqp091.Table{"x-delayed-type": "headers", "n": big}))
	require.NoError(t, ch.ExchangeDeclare("front", "direct", true, false, false, false, amqp091.Table{"alternate-exchange": odd}))
	r.Declare("to / it", nil)
	r.Bind("to / it", "a.*", odd, amqp091.Table{"n": big, "t": amqp091.Table{"x": "y"}})
	require.NoError(t, ch.ExchangeBind("amq.headers", "é", odd, false, nil))
	require.NoError(t, ch.ExchangeBind(odd, "k", "front", false, nil))
	r.publish("plain", "", 3, time.Hour, nil)
	change(t, b, http.MethodPut, map[string]any{"pattern": "^pl", "definition": map[string]string{"alternate-exchange": "front"}, "apply-to": "exchanges"}, "policies", vhost, "p")

	v, err := api.Look(t.Context())
	require.NoError(t, err)
	require.Equal(t, b.Version(), v.Version)
	require.Len(t, v.Delayed, 2)
	require.Equal(t, inventory.Definition{
		Exchange: inventory.Exchange{Name: odd, Type: "x-delayed-message", Durable: true, Internal: true, Arguments: amqp091.Table{"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"}},
		Out: []objects.Bound{
			{Binding: topology.Binding{Source: odd, Target: "amq.headers", ToExchange: true, Key: "é"}, Args: amqp091.Table{}},
			{Binding: topology.Binding{Source: odd, Target: "to / it", Key: "a.*"}, Args: amqp091.Table{"n": big, "t": amqp091.Table{"x": "y"}}},
		},
		In: []objects.Bound{{Binding: topology.Binding{Source: "front", Target: odd, ToExchange: true, Key: "k"}, Args: amqp091.Table{}}},
	}, v.Delayed[0])
	require.Equal(t, amqp091.Table{"x-delayed-type": "headers", "n": big}, v.Delayed[1].Arguments)

	definition, err := api.Definition(t.Context(), odd)
	require.NoError(t, err)
	require.Equal(t, v.Delayed[0], definition)
	require.Equal(t, "p", v.Delayed[1].Policy)
	require.Len(t, v.Nodes, 1)
	require.True(t, v.Nodes[0].Running)
	_, err = api.Definition(t.Context(), "no such")
	require.ErrorIs(t, err, delayer.ErrUnroutable)

	var says string
	for _, f := range assess.Assess(assess.Question{Inventory: v, Prefix: "delayer"}) {
		require.NotEqual(t, assess.Blocker, f.Level, f)
		says += f.About + ": " + f.Says
	}
	require.Contains(t, says, `it has alternate exchange "amq.fanout"`)
}
