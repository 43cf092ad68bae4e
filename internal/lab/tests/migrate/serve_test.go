package migrate_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/rebind"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// servePatience bounds what hangs, and measures nothing.
const servePatience = time.Minute

// A crossing is an exchange of the plugin with a queue behind it, and delayer serve for it.
type crossing struct {
	*swapRig
	cfg   backend.Config
	kind  string
	queue string
}

func newCrossing(t testing.TB, kind string) *crossing {
	c := &crossing{swapRig: newSwapRig(t), kind: kind}
	c.cfg.URL = c.Broker.URL() // and no management: the Delayer would wait for policies
	c.cfg.Prefix, c.cfg.Logger = c.prefix, slog.New(slog.DiscardHandler)
	c.cfg.BinaryLadder = binaryladder.Config{Tick: 20 * time.Millisecond, Steps: "20ms,40ms,80ms,160ms,320ms,640ms,1280ms,2560ms"}
	c.delayed(kind, false, nil)
	c.queue = c.swapRig.queue("the queue", c.name, "order.*", nil)
	t.Cleanup(func() { rabbittest.Remove(c, c.cfg) })
	return c
}

// cross serves the exchange until stop is called or the test ends.
func (c *crossing) cross(change func(*entry.Spec)) (stop func()) {
	c.Helper()
	settings, err := engine.Resolve(c.cfg.Options, "")
	require.NoError(c, err)
	d, err := backend.Open(c.Context(), c.cfg)
	require.NoError(c, err)
	spec := entry.Spec{Name: c.name, Type: c.kind, To: c.target()}
	if change != nil {
		change(&spec)
	}
	r, err := entry.Open(c.Context(), entry.Config{Settings: settings, Delayer: d, Prefetch: 100})
	require.NoError(c, err)
	require.NoError(c, r.Add(c.Context(), []entry.Spec{spec}))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	if spec.MoveBindings {
		m := rebind.Mover{Spec: spec, Prefix: c.prefix, API: c.api, Control: r.Control(), Log: c.cfg.Logger}
		running.Go(func() { m.Run(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		r.Close()
		assert.NoError(c, d.Close())
	})
	c.Cleanup(stop)
	return stop
}

// seen is what a consumer sees of a message, but for when and whence it came.
func seen(d amqp091.Delivery, without ...string) amqp091.Delivery {
	d.Acknowledger, d.ConsumerTag, d.DeliveryTag, d.MessageCount, d.Exchange = nil, "", 0, 0, ""
	d.Headers = maps.Clone(d.Headers)
	maps.DeleteFunc(d.Headers, func(name string, _ any) bool {
		return name == delayer.Header || name == "x-death" || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
	})
	for _, name := range without {
		delete(d.Headers, name)
	}
	if len(d.Headers) == 0 {
		d.Headers = nil
	}
	return d
}

// TestServe_AsThePlugin publishes the same messages to an exchange of the plugin before and after
// it is switched to serve: consumers see the same.
func TestServe_AsThePlugin(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{topicOrFanout(t), "headers"} {
		t.Run(kind, func(t *testing.T) {
			c := newCrossing(t, kind)
			uri, err := amqp091.ParseURI(c.cfg.URL)
			require.NoError(t, err)
			full := amqp091.Publishing{
				ContentType: "text/plain", ContentEncoding: "e", DeliveryMode: 2, Priority: 3, CorrelationId: "c", ReplyTo: "r",
				Timestamp: time.Unix(1_600_000_000, 0), Type: "t", UserId: uri.Username, AppId: "a", Body: []byte("body"),
			}
			expiring := full
			expiring.Expiration, expiring.Priority = "3600000", 9
			messages := map[string]amqp091.Publishing{
				"none": full, "zero": full, "negative": full, "late": full, "text": full, "expiring": expiring, "both": expiring,
				"bare": {}, "transient": {DeliveryMode: 1},
			}
			delays := map[string]any{
				"zero": int32(0), "negative": int32(-300), "late": int32(300), "text": "300", "both": int32(300), "bare": int32(100),
			}
			deliveries := c.Consume(c.queue)
			publish := func() map[string]amqp091.Delivery {
				came := map[string]amqp091.Delivery{}
				for id, msg := range messages {
					msg.MessageId = id
					msg.Headers = amqp091.Table{"s": "x", "n": int64(1), "t": amqp091.Table{"l": []any{int32(1), true}}, "CC": []any{"order.copy"}}
					if delay, ok := delays[id]; ok {
						msg.Headers["x-delay"] = delay
					}
					c.PublishDelayed(c.name, "order.new", msg)
				}
				for len(came) < len(messages) {
					d := rabbittest.Next(c, deliveries)
					assert.NotContains(t, came, d.MessageId, "twice")
					came[d.MessageId] = d
				}
				return came
			}
			before := publish()
			c.switches(record.Serving)
			stop := c.cross(func(s *entry.Spec) { s.KeepXDelay = true })
			exact := publish()
			for id, want := range before {
				assert.Equal(t, seen(want), seen(exact[id]), id)
			}
			stop()
			c.cross(nil)
			for id, got := range publish() {
				want := seen(before[id])
				if positive := id == "late" || id == "text" || id == "bare"; positive {
					want = seen(before[id], "x-delay")
					want.DeliveryMode = 2 // a Delayer's default
					assert.NotContains(t, got.Headers, "x-delay")
				}
				assert.Equal(t, want, seen(got), id)
			}
		})
	}
}

// TestServe_Pending: what waited in the plugin when the exchange was switched arrives, once, and
// does not wait again.
func TestServe_Pending(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, "fanout")
	if !c.broker.Conn().From(3, 13) {
		rabbittest.Skipf(t, "before RabbitMQ 3.13 nobody can tell what the plugin has delivered")
	}
	due := time.Now().Add(4 * time.Second)
	c.PublishDelayed(c.name, "k", amqp091.Publishing{MessageId: "pending", Headers: amqp091.Table{"x-delay": int32(4000)}})
	c.switches(record.Serving)
	c.cross(nil)
	d := rabbittest.Next(c, c.Consume(c.queue))
	assert.Equal(t, "pending", d.MessageId)
	assert.EqualValues(t, -4000, d.Headers["x-delay"])
	assert.False(t, time.Now().Before(due.Add(-time.Millisecond)), "early")
}

// TestServe_Expired: the expiration that runs in serve's queue takes no message.
func TestServe_Expired(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, "topic")
	c.switches(record.Serving)
	c.PublishDelayed(c.name, "order.new", amqp091.Publishing{MessageId: "at once", Expiration: "50"})
	began := time.Now()
	c.PublishDelayed(c.name, "order.new", amqp091.Publishing{MessageId: "later", Expiration: "50", Headers: amqp091.Table{"x-delay": int32(500)}})
	require.Eventually(t, func() bool { return c.depth(c.served().Back) == 2 }, servePatience, 20*time.Millisecond)
	c.cross(nil)
	deliveries, came := c.Consume(c.queue), map[string]amqp091.Delivery{}
	for len(came) < 2 {
		d := rabbittest.Next(c, deliveries)
		came[d.MessageId] = d
	}
	assert.False(t, time.Since(began) < 500*time.Millisecond, "early")
	for _, d := range came {
		assert.Equal(t, "50", d.Expiration)
		assert.NotContains(t, d.Headers, "x-death")
		assert.Equal(t, "order.new", d.RoutingKey)
	}
}

// TestServe_MovesBindings: what others bind to the exchange itself goes to the target. An exclusive
// queue, which serve cannot bind, keeps none of the others from it.
func TestServe_MovesBindings(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, "topic")
	c.switches(record.Serving)
	late := c.queue + " late"
	_, err := c.Ch.QueueDeclare(late, true, false, false, false, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = c.Ch.QueueDelete(late, false, false, false) })
	require.NoError(t, c.Ch.QueueBind(late, "other.#", c.name, false, nil))
	exclusive, err := c.Ch.QueueDeclare("", false, true, true, false, nil) // the broker's name comes before the other
	require.NoError(t, err)
	require.NoError(t, c.Ch.QueueBind(exclusive.Name, "nothing", c.name, false, nil))
	c.cross(func(s *entry.Spec) { s.MoveBindings = true })
	require.Eventually(t, func() bool {
		d, err := c.api.Definition(t.Context(), c.name)
		around := func(b inventory.BindingInfo) bool { return b.Target != c.served().Queue && b.Target != exclusive.Name }
		leads := func(b inventory.BindingInfo) bool { return b.Target == c.served().Queue }
		return err == nil && slices.ContainsFunc(d.Out, leads) && !slices.ContainsFunc(d.Out, around)
	}, servePatience, 50*time.Millisecond)
	deliveries := c.Consume(late)
	began := time.Now()
	c.PublishDelayed(c.name, "other.one", amqp091.Publishing{MessageId: "m", Headers: amqp091.Table{"x-delay": int32(300)}})
	assert.Equal(t, "m", rabbittest.Next(c, deliveries).MessageId)
	assert.False(t, time.Since(began) < 300*time.Millisecond, "early")
}
