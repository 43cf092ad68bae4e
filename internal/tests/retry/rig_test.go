// Package retry_test runs package retry on a broker, with every backend.
package retry_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/attempt"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/retry"
)

var options = rabbit.Options{Plugins: []string{rabbittest.DelayedMessages}}

func TestMain(m *testing.M) { rabbittest.Main(m, options) }

const (
	patience = time.Minute
	short    = 100 * time.Millisecond // the first interval
	long     = 300 * time.Millisecond // the second
)

var errTest = retryError("the service is down")

type retryError string

func (e retryError) Error() string { return string(e) }

var silent = slog.New(slog.DiscardHandler)

// A scene is a queue, bound to a topic exchange of its own, with a Delayer and a configuration for it.
type scene struct {
	t      testing.TB
	ch     *amqp091.Channel
	cfg    retry.Config
	orders string // the exchange
	user   string // of the connection
	cancel func() // tells the consumer to stop
}

func ladder() backend.Config {
	return backend.Config{BinaryLadder: binaryladder.Config{Tick: 20 * time.Millisecond, Steps: "20ms,40ms,80ms,160ms,320ms,640ms,1280ms,2560ms"}}
}

func newScene(t testing.TB, cfg backend.Config) *scene {
	t.Helper()
	b := rabbittest.Broker(t)
	name := rabbittest.Prefix(t)
	cfg.URL, cfg.Prefix, cfg.Logger = b.URL(), name+"-d", silent
	d, err := backend.Open(t.Context(), cfg)
	require.NoError(t, err)
	s := &scene{t: t, ch: rabbittest.Channel(t, b), orders: name + "-orders", cfg: retry.Config{
		Delayer: d, URL: b.URL(), Queue: name + "-q", Policy: retry.Policy{Intervals: []time.Duration{short, long}}, Logger: silent,
	}}
	uri, err := amqp091.ParseURI(b.URL())
	require.NoError(t, err)
	s.user = uri.Username
	t.Cleanup(func() {
		for _, queue := range []string{s.cfg.Queue, s.cfg.Queue + ".parked", s.cfg.Queue + "-copy"} {
			_, err := s.ch.QueueDelete(queue, false, false, false)
			require.NoError(t, err)
		}
		require.NoError(t, s.ch.ExchangeDelete(s.orders, false, false))
		require.NoError(t, d.(delayer.TopologyRemover).RemoveTopology(context.WithoutCancel(t.Context())))
		require.NoError(t, d.Close())
	})
	require.NoError(t, s.ch.ExchangeDeclare(s.orders, "topic", true, false, false, false, nil))
	s.declare(s.cfg.Queue, amqp091.Table{"x-queue-type": "quorum"})
	s.declare(s.cfg.Queue+"-copy", nil)
	require.NoError(t, s.ch.QueueBind(s.cfg.Queue, "order.*", s.orders, false, nil))
	require.NoError(t, s.ch.QueueBind(s.cfg.Queue+"-copy", "copy", s.orders, false, nil))
	require.NoError(t, s.ch.Confirm(false))
	return s
}

func (s *scene) declare(queue string, args amqp091.Table) {
	s.t.Helper()
	_, err := s.ch.QueueDeclare(queue, true, false, false, false, args)
	require.NoError(s.t, err)
}

// publish sends one message to the exchange, whose body is its id.
func (s *scene) publish(id string, headers amqp091.Table) {
	s.t.Helper()
	c, err := s.ch.PublishWithDeferredConfirm(s.orders, "order.new", true, false, amqp091.Publishing{
		Headers: headers, MessageId: id, Body: []byte(id), ContentType: "text/plain", DeliveryMode: 2, Priority: 7,
		CorrelationId: "c", ReplyTo: "r", Timestamp: time.Unix(1_700_000_000, 0), Type: "t", AppId: "a", UserId: s.user,
		Expiration: "3600000",
	})
	require.NoError(s.t, err)
	require.True(s.t, c.Wait())
}

// A call is one that the handler got.
type call struct {
	at      time.Time
	d       amqp091.Delivery
	attempt retry.Attempt
}

// consume runs a consumer until the test ends or stop is called.
func (s *scene) consume(handler retry.Handler) (calls <-chan call, stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	out, done := make(chan call, 1000), make(chan error, 1)
	go func() {
		done <- retry.Consume(ctx, s.cfg, func(ctx context.Context, d amqp091.Delivery) error {
			out <- call{time.Now(), d, retry.Info(ctx)}
			return handler(ctx, d)
		})
	}()
	s.cancel = cancel
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(s.t, <-done)
	})
	s.t.Cleanup(stop)
	return out, stop
}

func next[T any](t testing.TB, in <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-in:
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
	}
	return v
}

// parked waits for the next parked message and takes it.
func (s *scene) parked() (amqp091.Delivery, attempt.State) {
	s.t.Helper()
	d := s.get(s.cfg.Queue + ".parked")
	state, ok := attempt.Parked(&d, time.Now())
	require.True(s.t, ok)
	return d, state
}

// get waits for the next message of a queue, which may not exist yet, and takes it.
func (s *scene) get(queue string) (d amqp091.Delivery) {
	s.t.Helper()
	ch := rabbittest.Channel(s.t, rabbittest.Broker(s.t))
	require.Eventually(s.t, func() (ok bool) {
		if ch.IsClosed() {
			ch = rabbittest.Channel(s.t, rabbittest.Broker(s.t))
		}
		var err error
		d, ok, err = ch.Get(queue, true)
		return err == nil && ok
	}, patience, 20*time.Millisecond)
	return d
}

// count is the number of messages that nobody holds.
func (s *scene) count(queue string) int {
	s.t.Helper()
	q, err := s.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	require.NoError(s.t, err)
	return q.Messages
}
