package broker_test

import (
	"context"
	"fmt"
	"log/slog"
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
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

const tick = 100 * time.Millisecond

// These tests delete exchanges and queues of a Delayer and declare them again, as another process
// of the same prefix would: nothing is missing then, but the bindings are.

// A repaired is an open Delayer with a destination.
type repaired struct {
	*rabbittest.Rig
	cfg   backend.Config
	d     delayer.Delayer
	queue string
	got   <-chan amqp091.Delivery
}

func setUp(t *testing.T, cfg backend.Config) *repaired {
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	cfg.URL, cfg.Prefix = r.Broker.URL(), rabbittest.Prefix(t)
	cfg.Logger = slog.New(slog.DiscardHandler)
	b := &repaired{Rig: r, cfg: cfg, d: rabbittest.Open(t, cfg), queue: r.Queue("q", nil)}
	b.got = r.Consume(b.queue)
	return b
}

// arrives publishes a message and waits for it. direct says that it must not have been misrouted:
// one that is sent on says in its header that it had to wait for less.
func (b *repaired) arrives(exchange string, delay time.Duration, direct bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	due := time.Now().Add(delay)
	require.NoError(b, b.d.Publish(ctx, exchange, b.queue, delay, amqp091.Publishing{}))
	select {
	case d := <-b.got:
		require.False(b, time.Now().Before(due), "early")
		if direct {
			header, _ := d.Headers[delayer.Header].(string)
			require.Equal(b, fmt.Sprint(delay.Milliseconds()), strings.Fields(header)[2], "it was misrouted again")
		}
	case <-ctx.Done():
		b.Fatal("it does not arrive")
	}
}

// replace deletes an exchange, or the queue of that name, and declares it as it was, without
// bindings.
func (b *repaired) replace(suffix string) {
	b.Helper()
	plan, err := backend.Topology(b.cfg)
	require.NoError(b, err)
	name := b.cfg.Prefix + suffix
	for _, x := range plan.Exchanges {
		if x.Name == name {
			require.NoError(b, b.Ch.ExchangeDelete(name, false, false))
			args := amqp091.Table{}
			if x.Alternate != "" {
				args["alternate-exchange"] = x.Alternate
			}
			require.NoError(b, b.Ch.ExchangeDeclare(name, x.Kind, true, false, false, false, args))
			return
		}
	}
	for _, q := range plan.Queues {
		if q.Name == name {
			_, err := b.Ch.QueueDelete(name, false, false, false)
			require.NoError(b, err)
			_, err = b.Ch.QueueDeclare(name, true, false, false, false, q.Args)
			require.NoError(b, err)
			return
		}
	}
	b.Fatalf("no %s", name)
}

// none asserts that nothing is kept as unroutable.
func (b *repaired) none() {
	b.Helper()
	for _, suffix := range []string{".unroutable", ".misrouted"} {
		require.Zero(b, b.Count(b.cfg.Prefix+suffix), suffix)
	}
}

// exchange declares an exchange of the user's, bound to the queue.
func (b *repaired) exchange() string {
	name := b.Exchange("x", "direct", nil)
	b.Bind(b.queue, b.queue, name, nil)
	return name
}

func TestLadder_ObjectsDeclaredAgainByOthers(t *testing.T) {
	t.Parallel()
	b := setUp(t, backend.Config{BinaryLadder: binaryladder.Config{Tick: tick, Steps: "100ms,200ms,400ms,800ms,1600ms,3200ms"}})
	exchange := b.exchange()
	const delay = 3 * tick // two ticks, and then one
	b.arrives("", delay, true)
	b.arrives(exchange, delay, true)
	for _, suffix := range []string{
		".ladder.step.200ms", ".ladder.step.100ms", ".ladder.wait.100ms", ".ladder.wait.200ms", ".ladder.enter",
		".delivery", ".delivery.exchanges", ".delivery.fork",
	} {
		b.replace(suffix)
		for _, direct := range []bool{false, true} { // the first one shows what is missing
			b.arrives("", delay, direct)
			b.arrives(exchange, delay, direct)
		}
		b.none()
	}
}

// TestLadder_QueuesCreatedAgain: queues are deleted and created again, many times and together, each
// before its next message is published. None is missing. RabbitMQ may keep all that leaves a waiting
// queue for a second with each (rabbit_fifo_dlx_worker:remove_queue/2).
func TestLadder_QueuesCreatedAgain(t *testing.T) {
	t.Parallel()
	const queues, rounds = 4, 10
	b := setUp(t, ladder())
	var working sync.WaitGroup
	for i := range queues {
		ch, name := b.Channel(), fmt.Sprintf("%s-again-%d", b.Prefix, i)
		working.Go(func() {
			for range rounds {
				_, err := ch.QueueDeclare(name, true, false, false, false, nil)
				assert.NoError(t, err)
				assert.EventuallyWithT(t, func(c *assert.CollectT) { // it may be known that the queue was gone
					assert.NoError(c, b.d.Publish(t.Context(), "", name, tick, amqp091.Publishing{}))
				}, patience, 50*time.Millisecond)
				arrived := func() bool {
					_, ok, err := ch.Get(name, true)
					return ok && err == nil
				}
				assert.Eventually(t, arrived, patience, 10*time.Millisecond)
				_, err = ch.QueueDelete(name, false, false, false)
				assert.NoError(t, err)
			}
		})
	}
	working.Wait()
}
