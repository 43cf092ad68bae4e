package migrate_test

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// A delayed is an exchange of the plugin, with a queue behind it.
type delayed struct {
	*rabbittest.Rig
	control  *node.Control
	node     string
	exchange string
	queue    string
}

// newDelayed declares an exchange whose name is hard to write into a program.
func newDelayed(t *testing.T, kind string) *delayed {
	t.Helper()
	r := rabbittest.NewRig(t, needPlugin(t))
	control, err := node.New(rabbitmqctl(t, r.Broker))
	require.NoError(t, err)
	nodes, err := control.Nodes(t.Context())
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	const hard = ` "it's" \ ä`
	d := &delayed{r, control, nodes[0], r.Exchange(hard, "x-delayed-message", amqp091.Table{"x-delayed-type": kind}), r.Queue(hard+" queue", nil)}
	d.Bind(d.queue, "#", d.exchange, nil)
	return d
}

// user is the name of the connection's user.
func (d *delayed) user() string {
	at, err := url.Parse(d.Broker.URL())
	require.NoError(d, err)
	return at.User.Username()
}

// publish publishes one message with a delay.
func (d *delayed) publish(key string, delay time.Duration, msg amqp091.Publishing) {
	d.Helper()
	if msg.Headers == nil {
		msg.Headers = amqp091.Table{}
	}
	msg.Headers["x-delay"] = delay.Milliseconds()
	d.PublishDelayed(d.exchange, key, msg)
}

// pending counts what waits for the exchange.
func (d *delayed) pending() int {
	d.Helper()
	tables, err := d.control.Pending(d.Context())
	require.NoError(d, err)
	n := 0
	for _, table := range tables {
		for _, x := range table.Exchanges {
			if x.Exchange == d.exchange {
				n += x.Rows
			}
		}
	}
	return n
}

// rows reads all rows of the exchange in batches.
func (d *delayed) rows(q node.Query) (all []node.Row) {
	d.Helper()
	q.Vhost, q.Exchanges = "/", []string{d.exchange}
	for {
		batch, err := d.control.Rows(d.Context(), d.node, q)
		require.NoError(d, err)
		require.LessOrEqual(d, len(batch.Rows), q.MaxRows)
		if all = append(all, batch.Rows...); batch.Last {
			return all
		}
		q.After = batch.Next
	}
}

func (d *delayed) remove(rows ...node.Row) int {
	d.Helper()
	entries := make([]node.Entry, len(rows))
	for i, r := range rows {
		entries[i] = node.Entry{ID: r.ID, Due: r.Due}
	}
	n, _, err := d.control.Remove(d.Context(), d.node, "/", entries)
	require.NoError(d, err)
	return n
}

func ids(rows []node.Row) []string {
	var list []string
	for _, r := range rows {
		list = append(list, r.ID)
	}
	return list
}

// TestNode_Batches: each row is read once, in its order, however the batches are cut; its id is
// always the same.
func TestNode_Batches(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, "topic")
	const messages = 37
	for i := range messages {
		d.publish("key", time.Duration(2+i%3)*24*time.Hour, amqp091.Publishing{Body: make([]byte, 1000), MessageId: fmt.Sprint(i)})
	}
	all := d.rows(node.Query{MaxRows: 1000, MaxBytes: 1 << 30})
	require.Len(t, all, messages)
	assert.IsNonDecreasing(t, dues(all))
	assert.Equal(t, ids(all), ids(d.rows(node.Query{MaxRows: 10, MaxBytes: 1 << 30})))
	assert.Equal(t, ids(all), ids(d.rows(node.Query{MaxRows: 1000, MaxBytes: 9500})))
	assert.Len(t, d.rows(node.Query{MaxRows: 1000, MaxBytes: 1 << 30, Later: 84 * time.Hour}), messages/3, "those that are due later")
	assert.Equal(t, 5, d.remove(all[:5]...))
	assert.Equal(t, ids(all[5:]), ids(d.rows(node.Query{MaxRows: 1000, MaxBytes: 1 << 30})))
	assert.Equal(t, messages-5, d.remove(all...))
}

func dues(rows []node.Row) (list []int64) {
	for _, r := range rows {
		list = append(list, r.Due)
	}
	return list
}

func TestNode_LargeBody(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, "topic")
	body := make([]byte, 16<<20)
	_, _ = rand.Read(body)
	d.publish("key", time.Hour, amqp091.Publishing{Body: body})
	rows := d.rows(node.Query{MaxRows: 10, MaxBytes: 1 << 20})
	require.Len(t, rows, 1)
	assert.True(t, string(body) == string(rows[0].Body), "the body is another")
	assert.Equal(t, 1, d.remove(rows...))
}

// TestNode_RemovedFirst: the plugin goes on if the message that its timer waits for is removed.
// A removal that comes too late proves nothing, and is tried again with more time.
func TestNode_RemovedFirst(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, topicOrFanout(t))
	in := d.Consume(d.queue)
	for delay := 5 * time.Second; ; delay *= 2 {
		stays := "stays " + delay.String()
		d.publish("key", delay, amqp091.Publishing{MessageId: "removed " + delay.String()})
		d.publish("key", delay+time.Second, amqp091.Publishing{MessageId: stays})
		rows := d.rows(node.Query{MaxRows: 1, MaxBytes: 1 << 20})
		removed := len(rows) == 2 && d.remove(rows[0]) == 1
		for d.receive(in, 1)[0].MessageId != stays {
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
	r := newSwapRig(t)
	r.delayed("topic", false, nil)
	s, release := swapperOf(t, r.broker, r.node, r.api, r.vhost, r.prefix, r.name)
	defer release()
	reshaping := node.Reshaping{
		Vhost: "/", Exchange: r.name, Lock: s.Lock.Name, Token: "another's", Behind: record.Name(r.prefix, r.name),
		Hold: record.Hold(r.prefix, r.name), Queue: r.served().Queue, Routes: "topic", Type: "topic", Shape: node.Plain,
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
