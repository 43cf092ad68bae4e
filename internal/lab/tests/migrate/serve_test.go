package migrate_test

import (
	"context"
	"log/slog"
	"maps"
	"math"
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
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/xdelay"
)

func (r *rig) serves(kind string) (stop func()) {
	r.Helper()
	cfg := backend.Config{}
	cfg.URL = r.Broker.URL() // and no management: the Delayer would wait for policies
	cfg.Prefix, cfg.Logger = r.Prefix, slog.New(slog.DiscardHandler)
	cfg.BinaryLadder = binaryladder.Config{Tick: 20 * time.Millisecond, Steps: "20ms,40ms,80ms,160ms,320ms,640ms,1280ms,2560ms"}
	settings, err := engine.Resolve(cfg.Options, "")
	require.NoError(r, err)
	d := rabbittest.Open(r, cfg)
	spec := entry.Spec{Name: r.name, Type: kind, To: r.target()}
	c, err := entry.Open(r.Context(), entry.Config{Settings: settings, Delayer: d, Prefetch: 100, Entries: []entry.Spec{spec}})
	require.NoError(r, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		c.Close()
	})
	r.Cleanup(stop)
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
	kind := topicOrFanout(t)
	c := newDelayed(t, kind)
	uri, err := amqp091.ParseURI(c.Broker.URL())
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
	c.serves(kind)
	for id, got := range publish() {
		want := seen(before[id], "x-delay")
		if positive := id == "late" || id == "text" || id == "bare" || id == "both"; positive {
			want.DeliveryMode = 2 // a Delayer's default
		}
		assert.NotContains(t, got.Headers, "x-delay")
		assert.Equal(t, want, seen(got), id)
	}
}

// TestServe_Waited: what waits when serve starts arrives once, and not early: in the plugin since
// before the switch, and in serve's queue, where the expiration that runs takes no message.
func TestServe_Waited(t *testing.T) {
	t.Parallel()
	const kind = "fanout"
	c := newDelayed(t, kind)
	waits := map[string]amqp091.Publishing{"at once": asked(0, amqp091.Publishing{Expiration: "50"})}
	due := map[string]time.Time{"later": time.Now().Add(500 * time.Millisecond)}
	waits["later"] = asked(500*time.Millisecond, amqp091.Publishing{Expiration: "50"})
	if c.broker.Conn().From(3, 13) { // before, nobody can tell what the plugin has delivered
		due["pending"] = time.Now().Add(4 * time.Second)
		c.PublishDelayed(c.name, "k", asked(4*time.Second, amqp091.Publishing{MessageId: "pending"}))
	}
	c.switches(record.Serving)
	for id, msg := range waits {
		msg.MessageId = id
		c.PublishDelayed(c.name, "order.new", msg)
	}
	require.Eventually(t, func() bool { return c.depth(c.served().Back) == 2 }, rabbittest.Patience, 20*time.Millisecond)
	c.serves(kind)
	for _, d := range c.receive(c.Consume(c.queue), 1+len(due)) {
		assert.False(t, time.Now().Before(due[d.MessageId].Add(-time.Millisecond)), "%s is early", d.MessageId)
		if d.MessageId == "pending" {
			assert.EqualValues(t, -4000, d.Headers["x-delay"])
			continue
		}
		assert.Contains(t, waits, d.MessageId)
		delete(waits, d.MessageId)
		assert.Equal(t, "50", d.Expiration)
		assert.NotContains(t, d.Headers, "x-death")
		assert.Equal(t, "order.new", d.RoutingKey)
	}
}

// TestXDelay_BesideThePlugin holds what package xdelay says of the plugin. A message that the
// plugin delivers at once arrives before one that is published after it.
func TestXDelay_BesideThePlugin(t *testing.T) {
	const atOnce, later, fails = "at once", "later", "fails"
	c := newDelayed(t, topicOrFanout(t))
	deliveries := c.Consume(c.queue)
	recent := c.broker.Conn().From(3, 13) // the first with message containers
	either := func(before, since string) string {
		if recent {
			return since
		}
		return before
	}
	for name, x := range map[string]struct {
		value  any
		plugin string
		ours   any // a delay, or nil for an error
	}{
		"nil":            {nil, either(atOnce, fails), 0 * time.Second},
		"zero":           {int32(0), atOnce, 0 * time.Second},
		"negative":       {int32(-60_000), atOnce, 0 * time.Second},
		"int32":          {int32(60_000), later, time.Minute},
		"int64":          {int64(60_000), later, time.Minute},
		"int16":          {int16(30_000), later, 30 * time.Second},
		"longest":        {int64(math.MaxUint32), later, xdelay.Max},
		"above":          {int64(math.MaxUint32) + 1, atOnce, nil},
		"text":           {"60000", later, time.Minute},
		"signed text":    {"+60000", later, time.Minute},
		"negative text":  {"-60000", atOnce, 0 * time.Second},
		"text above":     {"4294967296", atOnce, nil},
		"words":          {"soon", fails, nil},
		"empty":          {"", fails, nil},
		"text fraction":  {"60000.5", fails, nil},
		"float":          {60_000.7, later, 60_001 * time.Millisecond},
		"float above":    {1e12, atOnce, nil},
		"negative float": {-0.5, atOnce, 0 * time.Second},
		"bytes":          {[]byte("60000"), either(atOnce, later), time.Minute},
		"bool":           {true, atOnce, nil},
		"time":           {time.Unix(1_700_000_000, 0), atOnce, nil},
	} {
		t.Run(name, func(t *testing.T) {
			delay, err := xdelay.Of(amqp091.Table{"x-delay": x.value})
			if x.ours == nil {
				assert.Error(t, err)
			} else {
				assert.NoError(t, err)
				assert.Equal(t, x.ours, delay)
			}
			ch := rabbittest.NewRig(t, c.Broker).Ch
			require.NoError(t, ch.Confirm(false))
			send := func(id string, headers amqp091.Table) bool {
				confirm, err := ch.PublishWithDeferredConfirm(c.name, "order.new", false, false, amqp091.Publishing{MessageId: id, Headers: headers})
				return err == nil && confirm.Wait()
			}
			if !send(name, amqp091.Table{"x-delay": x.value}) {
				assert.Equal(t, fails, x.plugin)
				return
			}
			require.True(t, send("sentinel", nil))
			first := rabbittest.Next(c, deliveries).MessageId
			if first == name {
				assert.Equal(t, "sentinel", rabbittest.Next(c, deliveries).MessageId)
				assert.Equal(t, atOnce, x.plugin)
				return
			}
			assert.Equal(t, "sentinel", first)
			assert.Equal(t, later, x.plugin)
		})
	}
}
