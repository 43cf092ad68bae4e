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

func (r *rig) ladder() backend.Config {
	cfg := backend.Config{Backend: "binaryladder"}
	cfg.URL, cfg.Prefix, cfg.Logger = r.Broker.URL(), r.Prefix, slog.New(slog.DiscardHandler)
	cfg.BinaryLadder.Steps = "1s,2s,4s,8s,16s,32s,64s,128s,256s,512s,1024s,2048s"
	return cfg
}

func (r *rig) job() evacuate.Job {
	r.Helper()
	return evacuate.Job{
		Nodes: r.control, Delayer: rabbittest.Open(r, r.ladder()), Broker: broker.Options{URL: r.Broker.URL()},
		Prefix: r.Prefix, Vhost: "/", Exchanges: []string{r.name},
	}
}

// TestEvacuate_AsPublished: what arrives is what the plugin would have delivered, at its time, also
// by the keys of CC and BCC. If the machine is slow and the plugin delivers it before, it is tried
// again with more time.
func TestEvacuate_AsPublished(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.delayed("direct", false, nil)
	j := r.job()
	var boxes []<-chan amqp091.Delivery
	for _, key := range []string{"key", "cc", "bcc"} {
		boxes = append(boxes, r.Consume(r.bound(key, r.name, key, nil)))
	}
	at, err := amqp091.ParseURI(r.Broker.URL())
	require.NoError(t, err)
	msg := amqp091.Publishing{
		ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 3, CorrelationId: "c", ReplyTo: "r",
		MessageId: "m", Timestamp: time.Unix(1_700_000_000, 0), Type: "t", UserId: at.Username, AppId: "a", Body: []byte("body\x00"),
		Headers: amqp091.Table{
			"CC": []any{"cc"}, "BCC": []any{"bcc"}, "string": "ä", "int": int32(-5), "bool": true, "bytes": []byte{0, 1},
			"list": []any{"x", int64(1)}, "table": amqp091.Table{"k": "v"}, "void": nil, "long": int64(1) << 40, "double": 1.5,
			"time": time.Unix(9, 0),
		},
	}
	var due time.Time
	for delay, done := 8*time.Second, false; !done; delay *= 2 {
		due = time.Now().Add(delay)
		r.PublishDelayed(r.name, "key", asked(delay, msg))
		account, err := j.Run(t.Context())
		require.NoError(t, err)
		done = account.Moved == 1 && account.Twice == 0
		for _, in := range boxes {
			if !done {
				r.receive(in, 1+account.Twice)
			}
		}
	}
	delete(msg.Headers, "BCC")
	for _, in := range boxes {
		got := r.receive(in, 1)[0]
		assert.False(t, time.Now().Before(due), "early by %v", time.Until(due))
		assert.Equal(t, "key", got.RoutingKey)
		assert.Len(t, got.Headers[evacuate.RowHeader], 32)
		assert.NotContains(t, got.Headers, "x-delay")
		assert.NotContains(t, got.Headers, "BCC")
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
}

// TestEvacuate_SecondTool is refused while the first is at work.
func TestEvacuate_SecondTool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const allExchanges, noPatience = "", 0
	_, err := record.Take(t.Context(), r.broker.Conn(), r.Prefix, allExchanges, noPatience)
	require.NoError(t, err)
	_, err = r.job().Run(t.Context())
	require.ErrorIs(t, err, record.ErrLocked)
}

// removing are a job's nodes. What stands for the removal may call it.
type removing struct {
	evacuate.Nodes
	instead func(rows int, remove func() (int, error)) (int, error)
}

func (r removing) Remove(ctx context.Context, name, vhost string, list []node.Row) (int, error) {
	return r.instead(len(list), func() (int, error) { return r.Nodes.Remove(ctx, name, vhost, list) })
}

var errKilled = errors.New("killed")

// TestEvacuate_Killed: after a run that ends before or after the removal the next finishes. No
// message is lost; before the removal each comes twice, and both have the id of the row.
func TestEvacuate_Killed(t *testing.T) {
	for name, times := range map[string]int{"before the removal": 2, "after the removal": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newDelayed(t, "topic")
			j := r.job()
			const messages = 300
			for i := range messages {
				r.PublishDelayed(r.name, "key", asked(time.Hour, amqp091.Publishing{MessageId: fmt.Sprint(i)}))
			}
			broken := j
			broken.Nodes = removing{j.Nodes, func(_ int, remove func() (int, error)) (int, error) {
				if times == 1 {
					_, err := remove()
					require.NoError(t, err)
				}
				return 0, errKilled
			}}
			_, err := broken.Run(t.Context())
			require.ErrorIs(t, err, errKilled)
			require.ErrorContains(t, err, "300 messages were published and are in the plugin still")
			account, err := j.Run(t.Context())
			require.NoError(t, err)
			assert.Equal(t, messages*(times-1), account.Moved)
			assert.Zero(t, account.After)
			seen := map[[2]any]int{}
			for _, got := range takeAll(r.Rig, r.ladder()) {
				seen[[2]any{got.MessageId, got.Headers[evacuate.RowHeader]}]++
			}
			assert.Len(t, seen, messages)
			for id, n := range seen {
				assert.Equal(t, times, n, id)
			}
		})
	}
}

// noted consumes from the exchange's queue. It notes when messages arrive, and passes them on.
func (r *rig) noted(all *account.Account[string], most int) <-chan amqp091.Delivery {
	r.Helper()
	in, out := r.Consume(r.queue), make(chan amqp091.Delivery, most)
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
			case <-r.Context().Done():
				return
			}
		}
	})
	r.Cleanup(noting.Wait)
	return out
}

// TestEvacuate_NotEarly: no message arrives before its due time, which the plugin kept. Each
// arrives once, but for those that fell due between being published and being removed: they are
// counted, and arrive twice.
func TestEvacuate_NotEarly(t *testing.T) {
	t.Parallel()
	const messages = 500
	r, all := newDelayed(t, "fanout"), account.New[string](time.Now())
	j, in, attempt := r.job(), r.noted(all, 100*messages), 0
	twice, moved := 0, 0
	for first := 2 * time.Second; moved < messages; first *= 2 { // some were due before they were read
		attempt++
		for i := range messages {
			m := account.Course[string]{ID: fmt.Sprint(attempt, i), Delay: first + time.Duration(i)*7*time.Millisecond}
			m.Asked = all.At(time.Now().Truncate(time.Millisecond)) // a broker counts in milliseconds
			all.Ask(m)
			r.PublishDelayed(r.name, "key", asked(m.Delay, amqp091.Publishing{MessageId: m.ID}))
			all.Answer(m.ID, all.Now(), nil)
		}
		came, slow := 0, j
		slow.Nodes = removing{j.Nodes, func(rows int, remove func() (int, error)) (int, error) {
			if rows > 0 {
				came += len(r.receive(in, messages/10))
			}
			return remove()
		}}
		did, err := slow.Run(t.Context())
		require.NoError(t, err)
		twice, moved = twice+did.Twice, did.Moved
		r.receive(in, messages+did.Twice-came)
	}
	assert.Positive(t, twice)
	v := all.Verdict()
	assert.Empty(t, v.Early)
	assert.Empty(t, v.Missing)
	assert.Empty(t, v.Strangers)
	assert.Len(t, v.Twice, twice)
	assert.Equal(t, twice, v.Extra, "none came three times")
	t.Logf("%d attempts, %d came twice", attempt, twice)
}
