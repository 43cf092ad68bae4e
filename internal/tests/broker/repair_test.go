package broker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/topology"
)

const tick = 100 * time.Millisecond

// These tests delete exchanges and queues of a Delayer and declare them again, as another process of the
// same prefix would: nothing is missing then, but the bindings are.

// A bench is an open Delayer with a destination.
type bench struct {
	*testing.T
	cfg   backend.Config
	d     delayer.Delayer
	ch    *amqp091.Channel
	queue string
	got   <-chan amqp091.Delivery
}

func setUp(t *testing.T, cfg backend.Config) *bench {
	cfg.URL, cfg.Prefix = rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	cfg.Logger = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	d, err := backend.Open(ctx, cfg)
	require.NoError(t, err)
	b := &bench{T: t, cfg: cfg, d: d, ch: rabbittest.Channel(t, rabbittest.Broker(t)), queue: rabbittest.Prefix(t)}
	_, err = b.ch.QueueDeclare(b.queue, true, false, false, false, nil)
	require.NoError(t, err)
	b.got, err = b.ch.Consume(b.queue, "", true, false, false, false, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _ = b.ch.QueueDelete(b.queue, false, false, false)
		require.NoError(t, d.(delayer.TopologyRemover).RemoveTopology(context.Background()))
		require.NoError(t, d.Close())
	})
	return b
}

// arrives publishes a message and waits for it. direct says that it must not have been misrouted: one that
// is sent on says in its header that it had to wait for less.
func (b *bench) arrives(exchange string, delay time.Duration, direct bool) {
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

// replace deletes an exchange, or the queue of that name, and declares it as it was, without bindings.
func (b *bench) replace(suffix string) {
	b.Helper()
	t, err := backend.Topology(b.cfg)
	require.NoError(b, err)
	plan, name := t.(topology.Plan), b.cfg.Prefix+suffix
	for _, x := range plan.Exchanges {
		if x.Name == name {
			require.NoError(b, b.ch.ExchangeDelete(name, false, false))
			args := amqp091.Table{}
			if x.Alternate != "" {
				args["alternate-exchange"] = x.Alternate
			}
			require.NoError(b, b.ch.ExchangeDeclare(name, x.Kind, true, false, false, false, args))
			return
		}
	}
	for _, q := range plan.Queues {
		if q.Name == name {
			_, err := b.ch.QueueDelete(name, false, false, false)
			require.NoError(b, err)
			_, err = b.ch.QueueDeclare(name, true, false, false, false, q.Args)
			require.NoError(b, err)
			return
		}
	}
	b.Fatalf("no %s", name)
}

// none asserts that nothing is kept as unroutable.
func (b *bench) none() {
	b.Helper()
	for _, suffix := range []string{".unroutable", ".misrouted"} {
		q, err := b.ch.QueueDeclarePassive(b.cfg.Prefix+suffix, true, false, false, false, nil)
		require.NoError(b, err)
		require.Zero(b, q.Messages, suffix)
	}
}

// exchange declares an exchange of the user's, bound to the queue.
func (b *bench) exchange() string {
	name := rabbittest.Prefix(b)
	require.NoError(b, b.ch.ExchangeDeclare(name, "direct", true, false, false, false, nil))
	b.Cleanup(func() { _ = b.ch.ExchangeDelete(name, false, false) })
	require.NoError(b, b.ch.QueueBind(b.queue, b.queue, name, false, nil))
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
		".delivery", ".delivery.exchanges",
	} {
		b.replace(suffix)
		for _, direct := range []bool{false, true} { // the first one shows what is missing
			b.arrives("", delay, direct)
			b.arrives(exchange, delay, direct)
		}
		b.none()
	}
}

// TestResendOff: a misrouted message is left to an operator, and the bindings that it missed are made again
// all the same.
func TestResendOff(t *testing.T) {
	t.Parallel()
	b := setUp(t, backend.Config{
		Options: delayer.Options{Resend: delayer.Off}, BinaryLadder: binaryladder.Config{Tick: tick, Steps: "100ms,200ms,400ms,800ms,1600ms,3200ms"},
	})
	b.arrives("", 3*tick, true)
	b.replace(".ladder.step.200ms")
	require.NoError(t, b.d.Publish(t.Context(), "", b.queue, 3*tick, amqp091.Publishing{}))
	require.Eventually(t, func() bool {
		q, err := b.ch.QueueDeclarePassive(b.cfg.Prefix+".unroutable", true, false, false, false, nil)
		return err == nil && q.Messages == 1
	}, patience, 10*time.Millisecond)
	b.arrives("", 3*tick, true)
}

func TestController_DeliveryDeclaredAgainByOthers(t *testing.T) {
	t.Parallel()
	b := setUp(t, backend.Config{Backend: "controller", Controller: controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: tick}})
	exchange := b.exchange()
	b.arrives("", 3*tick, true)
	b.arrives(exchange, 3*tick, true)
	for _, suffix := range []string{".delivery", ".delivery.exchanges"} {
		b.replace(suffix)
		for _, direct := range []bool{false, true} { // the first one shows what is missing
			b.arrives("", 3*tick, direct)
			b.arrives(exchange, 3*tick, direct)
		}
		b.none()
	}
}
