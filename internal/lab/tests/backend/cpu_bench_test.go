package backend_test

import (
	"context"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// BenchmarkBrokerCPU compares what a message through a tier costs the broker, from publishing to
// its arrival, with one through a bare queue with a TTL and a dead-letter exchange: the least that
// TTL and dead-lettering can cost. Read broker-µs/msg: go test -bench BrokerCPU -benchtime 20000x.
func BenchmarkBrokerCPU(b *testing.B) {
	for _, kind := range []delayer.QueueType{delayer.Classic, delayer.Quorum} {
		b.Run("queues="+string(kind), func(b *testing.B) {
			b.Run("by=tier", func(b *testing.B) { measure(b, kind, tierPublisher) })
			b.Run("by=bare", func(b *testing.B) { measure(b, kind, barePublisher) })
		})
	}
}

const waits = 3 * time.Second

// measure publishes b.N messages through the publisher and waits for all of them.
func measure(b *testing.B, kind delayer.QueueType, newPublisher func(*testing.B, *amqp091.Channel, delayer.QueueType, string) func() error) {
	node := rabbittest.Broker(b)
	if !node.Owned() {
		rabbittest.Skipf(b, "the broker is not ours to measure")
	}
	ch, queue := channel(b), rabbittest.Prefix(b)
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(b, err)
	b.Cleanup(func() { _, _ = ch.QueueDelete(queue, false, false, false) })
	in, err := ch.Consume(queue, "", true, false, false, false, nil)
	require.NoError(b, err)
	publish := newPublisher(b, channel(b), kind, queue)
	require.NoError(b, publish()) // what is declared at first use, is
	<-in

	before, err := node.CPU()
	require.NoError(b, err)
	b.ResetTimer()
	var all errgroup.Group
	all.SetLimit(publishers)
	go func() {
		for range b.N {
			all.Go(publish)
		}
	}()
	for range b.N {
		<-in
	}
	b.StopTimer()
	require.NoError(b, all.Wait())
	after, err := node.CPU()
	require.NoError(b, err)
	b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "broker-µs/msg")
}

func tierPublisher(b *testing.B, _ *amqp091.Channel, kind delayer.QueueType, queue string) func() error {
	d := rabbittest.Open(b, backend.Config{
		Options: delayer.Options{URL: rabbittest.Broker(b).URL(), Prefix: rabbittest.Prefix(b), QueueType: kind},
		Backend: fixedtiers.Name, FixedTiers: fixedtiers.Config{Prefix: rabbittest.Prefix(b), Tiers: []time.Duration{waits}},
	})
	return func() error {
		return d.Publish(context.Background(), "", queue, waits, amqp091.Publishing{Body: []byte("x")})
	}
}

func barePublisher(b *testing.B, ch *amqp091.Channel, kind delayer.QueueType, queue string) func() error {
	name := rabbittest.Prefix(b)
	require.NoError(b, ch.ExchangeDeclare(name, "direct", true, false, false, false, nil))
	wait := objects.WaitingQueue(name, kind, waits, name)
	_, err := ch.QueueDeclare(wait.Name, true, false, false, false, wait.Args)
	require.NoError(b, err)
	require.NoError(b, ch.QueueBind(queue, name, name, false, nil))
	require.NoError(b, ch.Confirm(false))
	b.Cleanup(func() {
		_, _ = ch.QueueDelete(name, false, false, false)
		_ = ch.ExchangeDelete(name, false, false)
	})
	const mandatory, immediate = true, false
	return func() error {
		confirm, err := ch.PublishWithDeferredConfirm("", name, mandatory, immediate, amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte("x")})
		if err != nil {
			return err
		}
		if !confirm.Wait() {
			return delayer.ErrRefused
		}
		return nil
	}
}
