package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// ladder is the configuration of a Delayer for delays up to an hour and more.
func ladder(url, prefix string) backend.Config {
	cfg := backend.Config{Backend: "binaryladder"}
	cfg.URL, cfg.Prefix, cfg.Logger = url, prefix, slog.New(slog.DiscardHandler)
	cfg.BinaryLadder.Steps = "1s,2s,4s,8s,16s,32s,64s,128s,256s,512s,1024s,2048s"
	return cfg
}

// evacuated publishes messages and evacuates them before any is due. If that takes too long the
// plugin delivers some, and it is tried again with more time. It returns how many came twice
// meanwhile.
func (d *delayed) evacuated(j evacuate.Job, in []<-chan amqp091.Delivery, messages int, publish func(delay time.Duration)) (twice int) {
	d.Helper()
	for delay := 10 * time.Second; ; delay *= 2 {
		publish(delay)
		account, err := j.Run(d.Context())
		require.NoError(d, err)
		if account.Moved == messages && account.Twice == 0 {
			require.Equal(d, messages, account.Published)
			return twice
		}
		twice += account.Twice
		for _, queue := range in {
			d.receive(queue, messages+account.Twice)
		}
	}
}

// job is an evacuation of the exchange, through a Delayer with a tick of a second.
func (d *delayed) job() evacuate.Job {
	d.Helper()
	prefix := rabbittest.Prefix(d)
	cfg := ladder(d.Broker.URL(), prefix)
	opened := rabbittest.Open(d, cfg)
	d.Cleanup(func() {
		for _, q := range evacuate.Plan(prefix).Queues {
			_, _ = d.Ch.QueueDelete(q.Name, false, false, false)
		}
	})
	return evacuate.Job{
		Nodes: d.control, Delayer: opened, Broker: broker.Options{URL: d.Broker.URL()}, Prefix: prefix, Vhost: "/",
		Exchanges: []string{d.exchange},
	}
}

// receive waits for so many messages.
func (d *delayed) receive(in <-chan amqp091.Delivery, n int) (got []amqp091.Delivery) {
	d.Helper()
	for len(got) < n {
		got = append(got, rabbittest.Next(d, in))
	}
	return got
}

// TestEvacuate_AsPublished: what arrives is what the plugin would have delivered, at its time.
func TestEvacuate_AsPublished(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, topicOrFanout(t))
	j := d.job()
	msg := amqp091.Publishing{
		ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 3, CorrelationId: "c", ReplyTo: "r",
		MessageId: "m", Timestamp: time.Unix(1_700_000_000, 0), Type: "t", UserId: d.user(), AppId: "a", Body: []byte("body\x00"),
		Headers: amqp091.Table{
			"CC": []any{"cc.one"}, "BCC": []any{"bcc"}, "string": "ä", "int": int32(-5), "bool": true, "bytes": []byte{0, 1},
			"list": []any{"x", int64(1)}, "table": amqp091.Table{"k": "v"}, "void": nil, "long": int64(1) << 40, "double": 1.5,
			"time": time.Unix(9, 0),
		},
	}
	in, due := d.Consume(d.queue), time.Time{}
	d.evacuated(j, []<-chan amqp091.Delivery{in}, 1, func(delay time.Duration) {
		due = time.Now().Add(delay)
		d.publish("a.key", delay, msg)
	})
	assert.Zero(t, d.pending())
	got := d.receive(in, 1)[0]
	assert.False(t, time.Now().Before(due), "early by %v", time.Until(due))
	assert.Equal(t, "a.key", got.RoutingKey)
	assert.Len(t, got.Headers[evacuate.RowHeader], 32)
	for _, name := range []string{"x-delay", "BCC"} {
		assert.NotContains(t, got.Headers, name)
		delete(msg.Headers, name)
	}
	for name, value := range msg.Headers {
		assert.Equal(t, value, got.Headers[name], name)
	}
	assert.Equal(t, msg.Body, got.Body)
	assert.Equal(t, []any{
		msg.ContentType, msg.ContentEncoding, msg.DeliveryMode, msg.Priority, msg.CorrelationId, msg.ReplyTo, msg.MessageId,
		msg.Timestamp, msg.Type, msg.UserId, msg.AppId,
	}, []any{
		got.ContentType, got.ContentEncoding, got.DeliveryMode, got.Priority, got.CorrelationId, got.ReplyTo, got.MessageId,
		got.Timestamp, got.Type, got.UserId, got.AppId,
	})
}

// TestEvacuate_Copies: CC and BCC route as they did.
func TestEvacuate_Copies(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, "direct")
	j := d.job()
	var boxes []<-chan amqp091.Delivery
	for _, key := range []string{"key", "cc", "bcc"} {
		q, err := d.Ch.QueueDeclare("", false, true, true, false, nil)
		require.NoError(t, err)
		require.NoError(t, d.Ch.QueueBind(q.Name, key, d.exchange, false, nil))
		in, err := d.Ch.Consume(q.Name, "", true, false, false, false, nil)
		require.NoError(t, err)
		boxes = append(boxes, in)
	}
	d.evacuated(j, boxes, 1, func(delay time.Duration) {
		d.publish("key", delay, amqp091.Publishing{Headers: amqp091.Table{"CC": []any{"cc"}, "BCC": []any{"bcc"}}})
	})
	for _, in := range boxes {
		got := d.receive(in, 1)[0]
		assert.Equal(t, "key", got.RoutingKey)
		assert.Equal(t, []any{"cc"}, got.Headers["CC"])
		assert.NotContains(t, got.Headers, "BCC")
	}
}

// TestEvacuate_Leave: what is due soon is the plugin's, and so is what the Delayer would refuse.
func TestEvacuate_Leave(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, "topic")
	j := d.job()
	j.Leave = 30 * time.Minute
	d.publish("soon", 20*time.Minute, amqp091.Publishing{})
	d.publish("later", time.Hour, amqp091.Publishing{})
	d.publish("expires", time.Hour, amqp091.Publishing{Expiration: "1000"})
	account, err := j.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, account.Before)
	assert.Equal(t, 1, account.Moved)
	assert.Equal(t, 2, account.After)
	assert.Equal(t, 1, evacuate.Sum(account.Left), "%v", account.Left)
	keys := []string{}
	for _, row := range d.rows(node.Query{MaxRows: 10, MaxBytes: 1 << 20}) {
		keys = append(keys, row.Keys[0])
	}
	assert.Equal(t, []string{"soon", "expires"}, keys)
	d.remove(d.rows(node.Query{MaxRows: 10, MaxBytes: 1 << 20})...)
}

// TestEvacuate_SecondTool is refused while the first is at work.
func TestEvacuate_SecondTool(t *testing.T) {
	t.Parallel()
	j := newDelayed(t, "topic").job()
	first, err := broker.Dial(t.Context(), j.Broker)
	require.NoError(t, err)
	defer first.Close()
	const allExchanges, noPatience = "", 0
	_, err = record.Take(t.Context(), first, j.Prefix, allExchanges, noPatience)
	require.NoError(t, err)
	_, err = j.Run(t.Context())
	require.ErrorIs(t, err, record.ErrLocked)
}

// TestEvacuate_GoneExchange: messages whose exchange is gone are kept, block no others, and are
// published by the next run.
func TestEvacuate_GoneExchange(t *testing.T) {
	t.Parallel()
	d, other := newDelayed(t, "topic"), newDelayed(t, "topic")
	j := d.job()
	j.Exchanges = []string{d.exchange, other.exchange}
	d.publish("gone", time.Hour, amqp091.Publishing{MessageId: "gone"})
	other.publish("there", time.Hour, amqp091.Publishing{})
	require.NoError(t, d.Ch.ExchangeDelete(d.exchange, false, false))
	account, err := j.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, account.Moved)
	assert.Equal(t, 1, account.Published)
	assert.Equal(t, 1, evacuate.Sum(account.Refused), "%v", account.Refused)
	require.NoError(t, d.Ch.ExchangeDeclare(d.exchange, "topic", true, false, false, false, nil))
	account, err = j.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, account.Found)
	assert.Equal(t, 1, account.Published)
	assert.Empty(t, account.Refused)
}

// A killed is a job's nodes of which a call fails as if the process had ended there.
type killed struct {
	evacuate.Nodes
	before, after bool // the removal
}

func (k *killed) Remove(ctx context.Context, name, vhost string, list []node.Entry) (int, node.Clock, error) {
	if k.before {
		return 0, node.Clock{}, errKilled
	}
	n, clock, err := k.Nodes.Remove(ctx, name, vhost, list)
	if k.after {
		return 0, clock, errKilled
	}
	return n, clock, err
}

var errKilled = errors.New("killed")

// looked are a job's nodes that tell when their tables are counted.
type looked struct {
	evacuate.Nodes
	at func()
}

func (l looked) Pending(ctx context.Context) ([]node.Table, error) {
	l.at()
	return l.Nodes.Pending(ctx)
}

// TestEvacuate_Killed: a run that ends before or after the removal is finished by the next, and
// each message waits in the Delayer once.
func TestEvacuate_Killed(t *testing.T) {
	for name, k := range map[string]killed{"before the removal": {before: true}, "after the removal": {after: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDelayed(t, "topic")
			j := d.job()
			const messages = 300
			for i := range messages {
				d.publish("key", time.Hour, amqp091.Publishing{MessageId: fmt.Sprint(i)})
			}
			broken := j
			k.Nodes = j.Nodes
			broken.Nodes = &k
			_, err := broken.Run(t.Context())
			require.ErrorIs(t, err, errKilled)
			var last evacuate.Account
			var published []int // when the tables are counted
			j.Progress = func(a evacuate.Account) { last = a }
			j.Nodes = looked{j.Nodes, func() { published = append(published, last.Published) }}
			account, err := j.Run(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []int{messages, messages}, published, "what nobody else delivers does not wait for a count")
			assert.Equal(t, messages, account.Found)
			assert.Equal(t, messages, account.Published)
			assert.Equal(t, account.Before, account.Moved, "what the first run had not removed")
			assert.Equal(t, k.before, account.Moved > 0)
			assert.Zero(t, account.After)
			assert.Zero(t, d.pending())
			seen := map[string]int{}
			all := inLadder(d.Rig, ladder(d.Broker.URL(), j.Prefix))
			for _, got := range all {
				seen[got.MessageId]++
			}
			assert.Len(t, seen, messages)
			assert.Len(t, all, messages)
		})
	}
}

// late are a job's nodes with clocks that are two hours ahead.
type late struct{ evacuate.Nodes }

func (l late) Remove(ctx context.Context, name, vhost string, list []node.Entry) (int, node.Clock, error) {
	n, clock, err := l.Nodes.Remove(ctx, name, vhost, list)
	clock.Node += (2 * time.Hour).Milliseconds()
	return n, clock, err
}

// TestEvacuate_InternalOverdue: what a killed run has left is due by now, and its exchange accepts
// nothing from clients.
func TestEvacuate_InternalOverdue(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, topicOrFanout(t))
	front := d.Exchange("front", "fanout", nil)
	d.exchange = d.Prefix + "-internal"
	require.NoError(t, d.Ch.ExchangeDeclare(d.exchange, "x-delayed-message", true, false, true, false, amqp091.Table{"x-delayed-type": topicOrFanout(t)}))
	t.Cleanup(func() {
		d.Fresh(func(ch *amqp091.Channel) error { return ch.ExchangeDelete(d.exchange, false, false) })
	})
	require.NoError(t, d.Ch.ExchangeBind(d.exchange, "", front, false, nil))
	d.Bind(d.queue, "key", d.exchange, nil)
	j := d.job()
	const messages = 50
	for range messages {
		d.PublishDelayed(front, "key", amqp091.Publishing{Headers: amqp091.Table{"x-delay": time.Hour.Milliseconds()}})
	}
	broken := j
	broken.Nodes = &killed{Nodes: j.Nodes, after: true}
	_, err := broken.Run(t.Context())
	require.ErrorIs(t, err, errKilled)
	j.Nodes = late{j.Nodes}
	account, err := j.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, messages, account.Published, "%v", account.Refused)
	d.receive(d.Consume(d.queue), messages)
}

// hesitant are a job's nodes that wait before they remove rows.
type hesitant struct {
	evacuate.Nodes
	wait func(rows int)
}

func (h hesitant) Remove(ctx context.Context, name, vhost string, list []node.Entry) (int, node.Clock, error) {
	h.wait(len(list))
	return h.Nodes.Remove(ctx, name, vhost, list)
}

// noted consumes from the exchange's queue. It notes when messages arrive, and passes them on.
func (d *delayed) noted(all *account.Account[string], most int) <-chan amqp091.Delivery {
	d.Helper()
	in, out := d.Consume(d.queue), make(chan amqp091.Delivery, most)
	var noting sync.WaitGroup
	noting.Go(func() {
		for {
			select {
			case got, open := <-in:
				if !open {
					return
				}
				all.Arrive(got.MessageId, all.Now())
				out <- got
			case <-d.Context().Done():
				return
			}
		}
	})
	d.Cleanup(noting.Wait)
	return out
}

// TestEvacuate_NotEarly: no message arrives before its due time, which the plugin kept. Each
// arrives once, but for those that fell due between being copied and being removed: they are
// counted, and arrive twice.
func TestEvacuate_NotEarly(t *testing.T) {
	t.Parallel()
	const messages, fall = 500, 50 // due between being copied and being removed, at least
	d, all := newDelayed(t, "fanout"), account.New[string](time.Now())
	j, in, attempt := d.job(), d.noted(all, 100*messages), 0
	publish := func(first time.Duration) {
		attempt++
		for i := range messages {
			m := account.Course[string]{ID: fmt.Sprint(attempt, i), Delay: first + time.Duration(i)*7*time.Millisecond}
			m.Asked = all.At(time.Now().Truncate(time.Millisecond)) // a broker counts in milliseconds
			all.Ask(m)
			d.publish("key", m.Delay, amqp091.Publishing{MessageId: m.ID})
			all.Answer(m.ID, all.Now(), nil)
		}
	}
	twice, copied := 0, 0
	for first := 2 * time.Second; copied < messages; first *= 2 { // some were due before they were copied
		publish(first)
		came, slow := 0, j
		slow.Nodes = hesitant{j.Nodes, func(rows int) {
			copied = rows
			came += len(d.receive(in, fall))
		}}
		did, err := slow.Run(t.Context())
		require.NoError(t, err)
		twice += did.Twice
		d.receive(in, messages+did.Twice-came)
	}
	assert.GreaterOrEqual(t, twice, fall)
	twice += d.evacuated(j, []<-chan amqp091.Delivery{in}, messages, publish)
	for _, got := range d.receive(in, messages) {
		assert.NotNil(t, got.Headers[evacuate.RowHeader], "%s was in time, and came by the plugin", got.MessageId)
	}
	v := all.Verdict()
	assert.Empty(t, v.Early)
	assert.Empty(t, v.Missing)
	assert.Empty(t, v.Strangers)
	assert.Len(t, v.Twice, twice)
	assert.Equal(t, twice, v.Extra, "none came three times")
	t.Logf("%d attempts, %d came twice", attempt, twice)
}

// TestEvacuate_Settled: what a run has published is out of its queue when it ends.
func TestEvacuate_Settled(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, "topic")
	j := d.job()
	const messages = 3000
	for i := range messages {
		_, err := d.Ch.PublishWithDeferredConfirm(d.exchange, "key", false, false, amqp091.Publishing{
			MessageId: fmt.Sprint(i), Headers: amqp091.Table{"x-delay": time.Hour.Milliseconds()},
		})
		require.NoError(t, err)
	}
	d.publish("key", time.Hour, amqp091.Publishing{})
	account, err := j.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, messages+1, account.Published)
	account, err = j.Run(t.Context())
	require.NoError(t, err)
	assert.Zero(t, account.Found, "they would come twice")
}
