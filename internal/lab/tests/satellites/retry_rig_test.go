package satellites_test

import (
	"context"
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
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/retry"
)

const (
	short = 100 * time.Millisecond // the first interval
	long  = 300 * time.Millisecond // the second
)

var errTest = retryError("the service is down")

type retryError string

func (e retryError) Error() string { return string(e) }

// A service is a queue, bound to a topic exchange of its own, with a Delayer and a configuration
// for it.
type service struct {
	*rabbittest.Rig
	d      delayer.Delayer
	cfg    retry.Config
	orders string // the exchange
	user   string // of the connection
	cancel func() // tells the consumer to stop
}

func ladder() backend.Config {
	return backend.Config{BinaryLadder: binaryladder.Config{Tick: 20 * time.Millisecond, Steps: "20ms,40ms,80ms,160ms,320ms,640ms,1280ms,2560ms"}}
}

func newService(t testing.TB, cfg backend.Config) *service {
	t.Helper()
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	cfg.URL, cfg.Prefix, cfg.Logger = r.Broker.URL(), r.Prefix+"-d", silent
	s := &service{Rig: r, d: rabbittest.Open(t, cfg), orders: r.Exchange("orders", "topic", nil), cfg: retry.Config{
		URL: r.Broker.URL(), Queue: r.Queue("q", amqp091.Table{"x-queue-type": "quorum"}),
		Policy: retry.Policy{Intervals: []time.Duration{short, long}}, Logger: silent,
	}}
	uri, err := amqp091.ParseURI(r.Broker.URL())
	require.NoError(t, err)
	s.user = uri.Username
	s.Bind(s.cfg.Queue, "order.*", s.orders, nil)
	s.Bind(s.Queue("q-copy", nil), "copy", s.orders, nil)
	t.Cleanup(func() { _, _ = s.Ch.QueueDelete(s.cfg.Queue+".parked", false, false, false) })
	return s
}

func (s *service) publish(id string, headers amqp091.Table) {
	s.Helper()
	s.Publish(s.orders, "order.new", amqp091.Publishing{
		Headers: headers, MessageId: id, Body: []byte(id), ContentType: "text/plain", DeliveryMode: 2, Priority: 7,
		CorrelationId: "c", ReplyTo: "r", Timestamp: time.Unix(1_700_000_000, 0), Type: "t", AppId: "a", UserId: s.user,
		Expiration: "3600000",
	})
}

// A call is one that the handler got.
type call struct {
	at      time.Time
	d       amqp091.Delivery
	attempt retry.Attempt
}

// consume runs a consumer until the test ends or stop is called.
func (s *service) consume(handler retry.Handler) (calls <-chan call, stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	out, done := make(chan call, 1000), make(chan error, 1)
	go func() {
		done <- retry.Consume(ctx, s.d, s.cfg, func(ctx context.Context, d amqp091.Delivery) error {
			out <- call{time.Now(), d, retry.Info(ctx)}
			return handler(ctx, d)
		})
	}()
	s.cancel = cancel
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(s, <-done)
	})
	s.Cleanup(stop)
	return out, stop
}

func failing(err error) retry.Handler {
	return func(context.Context, amqp091.Delivery) error { return err }
}

// parked waits for the next parked message and takes it.
func (s *service) parked() (amqp091.Delivery, attempt.State) {
	s.Helper()
	d := s.Take(s.cfg.Queue + ".parked")
	state, ok := attempt.Parked(&d, time.Now())
	require.True(s, ok)
	return d, state
}
