package migrate_test

import (
	"crypto/rand"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
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
	entries := make([]node.Entry, len(rows))
	for i, row := range rows {
		entries[i] = node.Entry{ID: row.ID, Due: row.Due}
	}
	n, err := r.control.Remove(r.Context(), r.theNode(), "/", entries)
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
