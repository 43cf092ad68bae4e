package broker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// These tests take away a part of the delivery stage while messages wait. A message for an exchange
// also goes to the discard queue: it must never go there alone.

// longEnough is a delay after which the Delayer of a test has been closed and opened again.
const longEnough = 3 * time.Second

func ladder() backend.Config {
	return backend.Config{BinaryLadder: binaryladder.Config{Tick: tick, Steps: "100ms,200ms,400ms,800ms,1600ms,3200ms"}}
}

func (b *repaired) send(exchange, key string, delay time.Duration, n int) {
	b.Helper()
	for i := range n {
		require.NoError(b, b.d.Publish(b.Context(), exchange, key, delay, amqp091.Publishing{Body: fmt.Append(nil, i)}))
	}
}

// all waits for the n messages of send. One may come twice: at least once.
func (b *repaired) all(n int) {
	b.Helper()
	came := map[string]bool{}
	for deadline := time.After(patience); len(came) < n; {
		select {
		case d := <-b.got:
			came[string(d.Body)] = true
		case <-deadline:
			b.Fatalf("%d of %d messages are lost", n-len(came), n)
		}
	}
}

// TestStage_PublisherRestarted: while no Delayer is open, the bindings that lead messages to an
// exchange are removed. The next Delayer knows no destination.
func TestStage_PublisherRestarted(t *testing.T) {
	for name, c := range map[string]struct {
		unrouted bool // there are messages too that the exchange does not route
		alone    bool // no Delayer is open when the messages are due
		remove   func(b *repaired, exchange string)
	}{
		"exchange for exchanges": {remove: func(b *repaired, _ string) {
			require.NoError(b, b.Ch.ExchangeDelete(b.cfg.Prefix+".delivery.exchanges", false, false))
		}},
		// The broker, which routes by several reads, sees the same for an instant while somebody
		// deletes the exchange for exchanges.
		"binding to the exchange for exchanges": {alone: true, remove: func(b *repaired, _ string) {
			require.NoError(b, b.Ch.ExchangeUnbind(b.cfg.Prefix+".delivery.exchanges", "", b.cfg.Prefix+".delivery.fork", false, nil))
		}},
		"bindings towards an exchange": {remove: func(b *repaired, exchange string) {
			source := delivery.NewStage(b.cfg.Prefix, true).Exchange()
			for _, target := range []string{b.cfg.Prefix + ".delivery.exchanges", b.cfg.Prefix + ".delivery.fork", exchange} {
				require.NoError(b, b.Ch.ExchangeUnbind(target, delivery.Key(exchange, "", 1), source, false, nil))
			}
		}},
		"discard queue": {unrouted: true, remove: func(b *repaired, _ string) {
			_, err := b.Ch.QueueDelete(b.cfg.Prefix+".discard", false, false, false)
			require.NoError(b, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setUp(t, ladder())
			exchange := b.exchange()
			if c.unrouted { // they stall nobody
				b.send(exchange, "nothing-is-bound-for-this", longEnough, 40)
			}
			b.send(exchange, b.queue, longEnough, 50)
			require.NoError(t, b.d.Close())
			c.remove(b, exchange)
			if !c.alone {
				b.d = rabbittest.Open(t, b.cfg)
			}
			b.all(50)
		})
	}
}

// TestStage_DeletedAtFullSpeed: the exchange for exchanges is deleted and declared again while
// messages are due. For an instant the broker may see the way to the discard queue alone (see
// delivery.Stage.Copying).
func TestStage_DeletedAtFullSpeed(t *testing.T) {
	const stressed, delay, atOnce = 3 * time.Second, tick, 200
	b := setUp(t, ladder())
	exchange := b.exchange()
	ctx, stop := context.WithTimeout(t.Context(), stressed)
	defer stop()
	deleted := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			if err = b.Ch.ExchangeDelete(b.cfg.Prefix+".delivery.exchanges", false, false); err == nil {
				_, err = backend.Apply(t.Context(), b.cfg)
			}
		}
		deleted <- err
	}()
	missing := map[string]bool{}
	for n := 0; ctx.Err() == nil; {
		var batch []delayer.Message
		for range atOnce {
			n++
			batch = append(batch, delayer.Message{
				Exchange: exchange, Key: b.queue, Delay: delay, Publishing: amqp091.Publishing{Body: fmt.Append(nil, n)},
			})
		}
		for i, err := range b.d.PublishBatch(t.Context(), batch) {
			if err == nil {
				missing[string(batch[i].Publishing.Body)] = true
			}
		}
	}
	require.NoError(t, <-deleted)
	require.NotEmpty(t, missing)
	for deadline := time.After(patience); len(missing) > 0; {
		select {
		case d := <-b.got:
			delete(missing, string(d.Body))
		case <-deadline:
			t.Fatalf("%d messages are lost", len(missing))
		}
	}
}

// TestStage_WayToExchangesRemoved: the one binding that can be missed without a message being
// misrouted is made again by a Delayer that never published.
func TestStage_WayToExchangesRemoved(t *testing.T) {
	t.Parallel()
	b := setUp(t, ladder())
	looks, err := backend.Open(engine.WithWatchEvery(t.Context(), time.Second), b.cfg)
	require.NoError(t, err)
	defer looks.Close() //nolint:errcheck // the test's end
	from, to := b.cfg.Prefix+".delivery.fork", b.cfg.Prefix+".delivery.exchanges"
	probe := b.Queue("probe", nil)
	b.Bind(probe, probe, to, nil)
	b.Publish(from, probe, amqp091.Publishing{})
	b.Take(probe)
	require.NoError(t, b.Ch.ExchangeUnbind(to, "", from, false, nil))
	require.Eventually(t, func() bool {
		b.Publish(from, probe, amqp091.Publishing{}) // to the discard queue, until it is back
		return b.Count(probe) > 0
	}, patience, 100*time.Millisecond)
}

// TestStage_RouteWithoutADelayer: with fixedtiers, messages of an existing exchange wait in a tier
// without any Delayer.
func TestStage_RouteWithoutADelayer(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	cfg := backend.Config{
		Options: delayer.Options{URL: r.Broker.URL(), Prefix: rabbittest.Prefix(t)}, Backend: "fixedtiers",
		FixedTiers: fixedtiers.Config{Tiers: []time.Duration{time.Second}},
	}
	_, err := backend.Apply(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = backend.Remove(within(t), cfg, true) })
	routes := cfg.Prefix + ".delay"
	r.Bind(r.Queue("q", nil), "#", routes+".exchange", nil)
	const n = 10
	for range n {
		r.Publish("", routes+".route.1s.queue", amqp091.Publishing{})
	}
	require.NoError(t, r.Ch.ExchangeDelete(routes+".exchange", false, false))
	misrouted := r.Consume(cfg.Prefix + ".misrouted") // a queue with a single active consumer refuses basic.get
	for range n {
		rabbittest.Next(t, misrouted)
	}
}

// TestLadder_PlainKeys: the ladder of four levels that the first founding document draws, with its
// keys. Here a tick is 100 ms instead of a second. Each delay that four bits can write passes the
// queues of its bits, and the key stays as it was.
func TestLadder_PlainKeys(t *testing.T) {
	t.Parallel()
	for _, kind := range []delayer.QueueType{delayer.Quorum, delayer.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			plainKeys(t, kind)
		})
	}
}

func plainKeys(t *testing.T, kind delayer.QueueType) {
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	cfg := backend.Config{
		Options:      delayer.Options{URL: r.Broker.URL(), Prefix: rabbittest.Prefix(t), QueueType: kind},
		BinaryLadder: binaryladder.Config{Routing: "topic", Tick: tick, Steps: "100ms,200ms,400ms,800ms"},
	}
	_, err := backend.Apply(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = backend.Remove(within(t), cfg, true) })
	work, top := r.Queue("work", nil), cfg.Prefix+".ladder.N3"
	r.Bind(work, "#.d", cfg.Prefix+".ladder.exchange", nil)
	in := r.Consume(work)
	began, waits := map[string]time.Time{}, map[string]time.Duration{}
	for ticks := range 16 {
		key := strings.Join(strings.Split(fmt.Sprintf("%04b", ticks), ""), ".") + ".d"
		began[key], waits[key] = time.Now(), time.Duration(ticks)*tick
		r.Publish(top, key, amqp091.Publishing{})
	}
	for range 16 {
		d := rabbittest.Next(t, in)
		require.Contains(t, waits, d.RoutingKey, "once")
		require.GreaterOrEqual(t, time.Since(began[d.RoutingKey]), waits[d.RoutingKey], d.RoutingKey)
		require.ElementsMatch(t, bitsOf(cfg.Prefix, d.RoutingKey), queuesOf(d), d.RoutingKey)
		delete(waits, d.RoutingKey)
	}
	r.Publish(top, "0.0.1", amqp091.Publishing{}) // a word is missing: kept, not lost
	rabbittest.Next(t, r.Consume(cfg.Prefix+".misrouted"))
}

// TestLadder_PlainKeys28: a message passes all 28 levels, N27 to N0, and waits in two of them.
func TestLadder_PlainKeys28(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	const levels = 28
	var steps []string // binary has more of them with a tick below a second
	for level := range levels {
		steps = append(steps, (tick << level).String())
	}
	cfg := backend.Config{
		Options:      delayer.Options{URL: r.Broker.URL(), Prefix: rabbittest.Prefix(t)},
		BinaryLadder: binaryladder.Config{Routing: "topic", Tick: tick, Steps: binaryladder.Steps(strings.Join(steps, ","))},
	}
	_, err := backend.Apply(within(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = backend.Remove(within(t), cfg, true) })
	work := r.Queue("work", nil)
	r.Bind(work, "#.d", cfg.Prefix+".ladder.exchange", nil)
	in, began := r.Consume(work), time.Now()
	key := strings.Join(strings.Split(fmt.Sprintf("%028b", 10), ""), ".") + ".d"
	r.Publish(cfg.Prefix+".ladder.N27", key, amqp091.Publishing{})
	d := rabbittest.Next(t, in)
	require.GreaterOrEqual(t, time.Since(began), 10*tick)
	require.Equal(t, key, d.RoutingKey)
	require.ElementsMatch(t, bitsOf(cfg.Prefix, key), queuesOf(d))
}

// bitsOf are the queues of the bits that are set in a key, whose last word is none.
func bitsOf(prefix, key string) (queues []string) {
	bits := strings.Split(key, ".")
	bits = bits[:len(bits)-1]
	for i, bit := range bits {
		if bit == "1" {
			queues = append(queues, fmt.Sprintf("%s.ladder.Q%d", prefix, len(bits)-1-i))
		}
	}
	return queues
}

// queuesOf are the queues in which a message expired. Their order in x-death says nothing.
func queuesOf(d amqp091.Delivery) (queues []string) {
	deaths, _ := d.Headers["x-death"].([]any)
	for _, death := range deaths {
		queues = append(queues, death.(amqp091.Table)["queue"].(string))
	}
	return queues
}
