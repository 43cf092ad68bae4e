package binaryladder

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/topology"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

// publishers is how many goroutines publish at a time, and so the window of unconfirmed messages.
const publishers = 64

// BenchmarkPublish compares publishing through a Ladder with what it costs at least: amqp091-go with
// deferred confirms, as many goroutines, one connection, the same keys to the same ladder. Read the two
// side by side: go test -bench Publish -benchmem -count 10, then benchstat -col /by.
func BenchmarkPublish(b *testing.B) {
	for _, kind := range []delayer.QueueType{delayer.Classic, delayer.Quorum} {
		b.Run("queues="+string(kind), func(b *testing.B) {
			l, plan, queue := benchLadder(b, kind)
			const delay = 1000 * time.Hour // nothing comes due while we measure
			b.Run("by=delayer", func(b *testing.B) {
				ctx := context.Background()
				parallel(b, func() error {
					return l.Publish(ctx, "", queue, delay, amqp091.Publishing{Body: []byte("x")})
				})
			})
			b.Run("by=amqp091", func(b *testing.B) { parallel(b, bare(b, l, plan, queue, delay)) })
		})
	}
}

func benchLadder(b *testing.B, kind delayer.QueueType) (l delayer.Delayer, plan blueprint, queue string) {
	b.Helper()
	url := rabbittest.Broker(b).URL()
	opts := delayer.Options{URL: url, Prefix: rabbittest.Prefix(b), QueueType: kind}
	l, err := Open(b.Context(), opts, Config{})
	require.NoError(b, err)
	plan, _, err = newBlueprint(opts, Config{})
	require.NoError(b, err)
	queue = rabbittest.Prefix(b)
	ch := benchChannel(b)
	_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(b, err)
	b.Cleanup(func() {
		_, _ = ch.QueueDelete(queue, false, false, false)
		require.NoError(b, l.(delayer.TopologyRemover).RemoveTopology(context.Background()))
		require.NoError(b, l.Close())
	})
	return l, plan, queue
}

func benchChannel(b *testing.B) *amqp091.Channel {
	b.Helper()
	conn, err := amqp091.Dial(rabbittest.Broker(b).URL())
	require.NoError(b, err)
	ch, err := conn.Channel()
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return ch
}

// bare publishes what l would, without it. The ladder has declared the way before.
func bare(b *testing.B, l delayer.Delayer, plan blueprint, queue string, delay time.Duration) func() error {
	b.Helper()
	ctx := context.Background()
	require.NoError(b, l.Publish(ctx, "", queue, delay, amqp091.Publishing{Body: []byte("x")}))
	var keys []any
	for _, k := range itinerary(plan.ladder.hops(delay)) {
		keys = append(keys, plan.key(k, 1))
	}
	keys = append(keys, delivery.Key("", queue, 1))
	ch := benchChannel(b)
	require.NoError(b, ch.Confirm(false))
	const mandatory, immediate = true, false
	return func() error {
		confirm, err := ch.PublishWithDeferredConfirm(plan.names.enter(), queue, mandatory, immediate, amqp091.Publishing{
			DeliveryMode: amqp091.Persistent,
			Headers:      amqp091.Table{"BCC": keys, delayer.Header: "0123456789abcdef 1795234405786 "},
			Body:         []byte("x"),
		})
		if err != nil {
			return err
		}
		if !confirm.Wait() {
			return delayer.ErrRefused
		}
		return nil
	}
}

// parallel calls publish from the publishers until b has enough.
func parallel(b *testing.B, publish func() error) {
	b.Helper()
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	failed := make(chan error, publishers)
	b.ResetTimer()
	for range publishers {
		go func() {
			for left.Add(-1) >= 0 {
				if err := publish(); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range publishers {
		if err := <-failed; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkPlan is the part of a Publish that is ours alone: the hops of a delay, and their keys.
func BenchmarkPlan(b *testing.B) {
	for name, l := range map[string]ladder{"bits=1": {28, 1, time.Second}, "bits=6": {6, 6, time.Millisecond}} {
		b.Run(name, func(b *testing.B) {
			s := newLinks(blueprint{ladder: l, names: names{"p"}}, func(context.Context, topology.Plan) error { return nil })
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Keys(ctx, itinerary(l.hops(9999*time.Second)), 1, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
