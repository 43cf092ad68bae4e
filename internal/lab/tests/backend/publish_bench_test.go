package backend_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/metrics"
)

// publishers is how many goroutines publish at a time, and so the window of unconfirmed messages.
const publishers = 64

// BenchmarkPublish compares publishing through a Ladder with what it costs at least: amqp091-go
// with deferred confirms, as many goroutines, one connection, the same keys to the same ladder.
// Read the two side by side: go test -bench Publish -benchmem -count 10, then benchstat -col /by.
// Observed: while package metrics counts.
func BenchmarkPublish(b *testing.B) {
	for _, kind := range []delayer.QueueType{delayer.Classic, delayer.Quorum} {
		b.Run("queues="+string(kind), func(b *testing.B) {
			l, prefix, queue := benchLadder(b, kind, delayer.Observer{})
			observed, _, _ := benchLadder(b, kind, metrics.New().Observer())
			const delay = 1000 * time.Hour // nothing comes due while we measure
			for name, d := range map[string]delayer.Delayer{"by=delayer": l, "by=observed": observed} {
				b.Run(name, func(b *testing.B) {
					ctx := context.Background()
					parallel(b, func() error {
						return d.Publish(ctx, "", queue, delay, amqp091.Publishing{Body: []byte("x")})
					})
				})
			}
			b.Run("by=amqp091", func(b *testing.B) { parallel(b, bare(b, l, prefix, queue, delay)) })
		})
	}
}

func benchLadder(b *testing.B, kind delayer.QueueType, observer delayer.Observer) (l delayer.Delayer, prefix, queue string) {
	b.Helper()
	url := rabbittest.Broker(b).URL()
	opts := delayer.Options{URL: url, Prefix: rabbittest.Prefix(b), QueueType: kind, Observer: observer}
	l = rabbittest.Open(b, backend.Config{Options: opts})
	queue = rabbittest.Prefix(b)
	ch := channel(b)
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(b, err)
	b.Cleanup(func() {
		_, _ = ch.QueueDelete(queue, false, false, false)
	})
	return l, opts.Prefix, queue
}

// bare publishes what l would, without it. The ladder has declared the route before.
func bare(b *testing.B, l delayer.Delayer, prefix, queue string, delay time.Duration) func() error {
	b.Helper()
	ctx := context.Background()
	require.NoError(b, l.Publish(ctx, "", queue, delay, amqp091.Publishing{Body: []byte("x")}))
	keys := routeKeys(b, prefix)
	ch := channel(b)
	require.NoError(b, ch.Confirm(false))
	const mandatory, immediate = true, false
	return func() error {
		confirm, err := ch.PublishWithDeferredConfirm(prefix+".ladder.enter", queue, mandatory, immediate, amqp091.Publishing{
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

// routeKeys are those of the only route that was published to under the prefix, each once.
func routeKeys(b *testing.B, prefix string) (keys []any) {
	b.Helper()
	node := rabbittest.Broker(b)
	if !node.Owned() {
		rabbittest.Skipf(b, "needs rabbitmqctl to list bindings")
	}
	out, err := node.Ctl(b.Context(), "-q", "--no-table-headers", "list_bindings", "source_name", "routing_key")
	require.NoError(b, err)
	for line := range strings.Lines(out) {
		source, key, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		ours := strings.HasPrefix(source, prefix+".ladder.") || source == prefix+".delivery"
		if ours && !slices.Contains(keys, any(key)) {
			keys = append(keys, key)
		}
	}
	require.NotEmpty(b, keys)
	return keys
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
