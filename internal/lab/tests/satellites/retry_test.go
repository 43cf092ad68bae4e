package satellites_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/backend/native"
	"github.com/delayer-go/delayer/gorabbitmq"
	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/retry"
)

// visible is what a handler sees of a message, without what differs from delivery to delivery.
func visible(d amqp091.Delivery) amqp091.Delivery {
	d.Acknowledger, d.ConsumerTag, d.DeliveryTag, d.Redelivered, d.UserId = nil, "", 0, false, ""
	return d
}

func TestConsume_FailsTwiceThenSucceeds(t *testing.T) {
	t.Parallel()
	tiers := fixedtiers.Config{Tiers: []time.Duration{short, long}, Rounding: "exact"}
	for _, cfg := range []backend.Config{
		ladder(), {Backend: "fixedtiers", FixedTiers: tiers}, {Backend: "controller"},
		{Backend: native.Name, Native: native.Config{Queues: 1}}, // all delays wait in one queue
	} {
		t.Run(cfg.Backend, func(t *testing.T) {
			if cfg.Backend == native.Name {
				rabbittest.NeedHiding(t)
			}
			s := newService(t, cfg)
			s.publish("m1", amqp091.Table{"CC": []any{"copy"}, "BCC": []any{"nowhere"}, "kind": "order", "big": int64(1) << 40})
			failed := make(chan time.Time, 3)
			calls, stop := s.consume(func(ctx context.Context, _ amqp091.Delivery) error {
				if retry.Info(ctx).Number == 3 {
					return nil
				}
				failed <- time.Now()
				return errTest
			})
			first := rabbittest.Next(t, calls)
			assert.Equal(t, s.orders, first.d.Exchange)
			assert.Equal(t, "order.new", first.d.RoutingKey)
			assert.Equal(t, amqp091.Table{"CC": []any{"copy"}, "kind": "order", "big": int64(1) << 40}, first.d.Headers)
			assert.Equal(t, s.user, first.d.UserId)
			assert.Equal(t, retry.Attempt{Number: 1, Max: 3, UserID: s.user}, first.attempt)
			for i, wait := range []time.Duration{short, long} {
				since, again := rabbittest.Next(t, failed), rabbittest.Next(t, calls)
				assert.GreaterOrEqual(t, again.at.Sub(since), wait, "no retry before its time")
				assert.Equal(t, visible(first.d), visible(again.d))
				assert.Equal(t, i+2, again.attempt.Number)
				assert.Equal(t, errTest.Error(), again.attempt.LastError)
				assert.Equal(t, s.user, again.attempt.UserID)
				assert.WithinDuration(t, first.at, again.attempt.FirstFailure, rabbittest.Patience)
			}
			stop()
			assert.Empty(t, calls)
			assert.Zero(t, s.Count(s.cfg.Queue))
			assert.Zero(t, s.Count(s.cfg.Queue+".parked"))
			assert.Equal(t, 1, s.Count(s.cfg.Queue+"-copy"), "a retry goes to its own queue alone")
		})
	}
}

func TestConsume_Parked(t *testing.T) {
	t.Parallel()
	s := newService(t, ladder())
	s.cfg.Policy.Intervals = []time.Duration{20 * time.Millisecond}
	counted := make(chan delayer.ParkedEvent, 100)
	s.cfg.Observer.Parked = func(e delayer.ParkedEvent) { counted <- e }
	calls, stop := s.consume(func(_ context.Context, d amqp091.Delivery) error {
		if d.MessageId == "permanent" {
			return retry.Permanent(errTest)
		}
		return errTest
	})
	assert.Equal(t, delayer.ParkedEvent{Queue: s.cfg.Queue}, rabbittest.Next(t, counted))
	for _, c := range []struct {
		id       string
		headers  amqp091.Table
		attempts int // that are made
		reason   string
		failures int // that the header counts
	}{
		{"attempts", amqp091.Table{"CC": []any{"copy"}}, 2, "all 2 attempts failed", 2},
		{"permanent", nil, 1, "the error is permanent", 1},
	} {
		s.publish(c.id, c.headers)
		d, state := s.parked()
		assert.Equal(t, "order.new", state.Original.Key, c.id)
		assert.Equal(t, c.id, d.MessageId)
		assert.Equal(t, c.id, string(d.Body))
		assert.Equal(t, s.cfg.Queue, state.Queue)
		assert.Contains(t, state.Reason, c.reason, c.id)
		assert.Equal(t, c.failures, state.Failures, c.id)
		assert.Len(t, state.History, c.attempts, c.id)
		assert.NotEmpty(t, state.LastError())
		for range c.attempts {
			rabbittest.Next(t, calls)
		}
		assert.Empty(t, calls, c.id)
	}
	stop()
	assert.Zero(t, s.Count(s.cfg.Queue))
	assert.Equal(t, 1, s.Count(s.cfg.Queue+"-copy"))
}

// refusing is a Delayer that confirms nothing.
type refusing struct {
	delayer.Delayer
	asked chan<- struct{}
}

func (r *refusing) Publish(context.Context, string, string, time.Duration, amqp091.Publishing) error {
	r.asked <- struct{}{}
	return &delayer.Error{Op: "publish", Kind: delayer.ErrRefused}
}

func TestConsume_NotConfirmedIsGivenBack(t *testing.T) {
	t.Parallel()
	s := newService(t, ladder())
	asked := make(chan struct{}, 100)
	s.d = &refusing{Delayer: s.d, asked: asked}
	s.publish("m", nil)
	calls, stop := s.consume(failing(errTest))
	assert.Equal(t, 1, rabbittest.Next(t, calls).attempt.Number)
	rabbittest.Next(t, asked) // by Open
	rabbittest.Next(t, asked)
	rabbittest.Next(t, asked)
	stop()
	assert.Empty(t, calls, "held, and not handled again")
	d := s.Take(s.cfg.Queue)
	assert.Equal(t, "m", d.MessageId)
	assert.True(t, d.Redelivered)
}

func TestConsume_ParkedQueueRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t, ladder())
	var log rabbittest.Logbook
	s.cfg.Logger = log.Logger()
	full := s.cfg.Queue + ".parked"
	s.Declare(full, amqp091.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"})
	s.Publish("", full, amqp091.Publishing{Body: []byte("in the way")})
	s.publish("m", nil)
	calls, _ := s.consume(failing(retry.Permanent(errTest)))
	rabbittest.Next(t, calls)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "is not confirmed") }, rabbittest.Patience, 10*time.Millisecond)
	assert.Empty(t, calls, "no tight loop")

	_, err := s.Ch.QueuePurge(full, false)
	require.NoError(t, err)
	assert.Equal(t, "m", s.Take(full).MessageId, "there is room")

	// Nothing is on its way there now: the broker confirms what a queue takes while it is deleted.
	_, err = s.Ch.QueueDelete(full, false, false, false)
	require.NoError(t, err)
	s.publish("n", nil)
	assert.Equal(t, "n", s.Take(full).MessageId, "the queue is declared again")
}

func TestConsume_ConnectionLost(t *testing.T) {
	t.Parallel()
	s := newService(t, ladder())
	proxy, err := faults.NewProxy(s.cfg.URL)
	require.NoError(t, err)
	defer proxy.Close()
	s.cfg.URL = proxy.URL(s.cfg.URL)
	s.cfg.Policy.Intervals = []time.Duration{short}
	s.publish("cut", nil)
	var cut atomic.Bool
	calls, stop := s.consume(func(ctx context.Context, _ amqp091.Delivery) error {
		if !cut.Swap(true) {
			proxy.Cut()
			<-ctx.Done() // the handler is told
			return errTest
		}
		return nil
	})
	first, again := rabbittest.Next(t, calls), rabbittest.Next(t, calls)
	assert.Equal(t, 1, first.attempt.Number)
	assert.Equal(t, 1, again.attempt.Number, "an attempt that was cut does not count, and is not doubled")
	s.publish("after", nil)
	assert.Equal(t, "after", rabbittest.Next(t, calls).d.MessageId)
	stop()
	assert.Empty(t, calls)
	assert.Zero(t, s.Count(s.cfg.Queue))
	assert.Zero(t, s.Count(s.cfg.Queue+".parked"))
}

// TestOpen_QueuesThatCannotBeRetried: what takes nothing back, or is not there, is refused at once.
func TestOpen_QueuesThatCannotBeRetried(t *testing.T) {
	t.Parallel()
	s := newService(t, ladder())
	stream := s.Queue("stream", amqp091.Table{"x-queue-type": "stream"})
	for name, c := range map[string]struct{ queue, parked, want string }{
		"stream":         {stream, s.cfg.Queue + ".parked", "open retry queue"},
		"parked, stream": {s.cfg.Queue, stream, "open retry parked"},
	} {
		cfg := s.cfg
		cfg.Queue, cfg.Parked = c.queue, c.parked
		_, err := retry.Open(t.Context(), s.d, cfg)
		require.ErrorIs(t, err, delayer.ErrConfig, name)
		assert.ErrorContains(t, err, c.want, name)
	}
	for _, kind := range []string{"classic", "quorum"} {
		s.cfg.Queue = s.Queue(kind, amqp091.Table{"x-queue-type": kind})
		r, err := retry.Open(t.Context(), s.d, s.cfg)
		require.NoError(t, err, kind)
		assert.NoError(t, r.Close())
		_, _ = s.Ch.QueueDelete(s.cfg.Queue+".parked", false, false, false)
	}
	s.cfg.Queue += "-nowhere"
	_, err := retry.Open(t.Context(), s.d, s.cfg)
	require.ErrorIs(t, err, delayer.ErrUnroutable)
	assert.ErrorContains(t, err, "-nowhere")
	assert.ErrorContains(t, err, "declare it first")
}

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

// quiet is a logger for go-rabbitmq that says nothing.
type quiet struct{}

func (quiet) Fatalf(string, ...any) {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Infof(string, ...any)  {}
func (quiet) Debugf(string, ...any) {}

func TestGoRabbitMQ(t *testing.T) {
	t.Parallel()
	s := newService(t, ladder())
	s.cfg.Policy.Intervals = []time.Duration{short}
	r, err := retry.Open(t.Context(), s.d, s.cfg)
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.Close()) }()
	conn, err := rabbitmq.NewConn(s.cfg.URL, rabbitmq.WithConnectionOptionsLogger(quiet{}))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	consumer, err := rabbitmq.NewConsumer(conn, s.cfg.Queue,
		rabbitmq.WithConsumerOptionsQueueNoDeclare, rabbitmq.WithConsumerOptionsLogger(quiet{}))
	require.NoError(t, err)
	defer consumer.Close()

	calls := make(chan call, 100)
	seen := map[string]int{}
	handler := gorabbitmq.RetryHandler(context.WithoutCancel(t.Context()), r, func(d rabbitmq.Delivery) rabbitmq.Action {
		calls <- call{at: time.Now(), d: d.Delivery}
		switch seen[d.MessageId]++; d.MessageId {
		case "discard":
			return rabbitmq.NackDiscard
		case "manual":
			return rabbitmq.Manual
		case "requeue":
			if seen[d.MessageId] == 1 {
				return rabbitmq.NackRequeue
			}
		}
		return rabbitmq.Ack
	})
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(handler) }()

	s.publish("requeue", nil)
	first, again := rabbittest.Next(t, calls), rabbittest.Next(t, calls)
	assert.GreaterOrEqual(t, again.at.Sub(first.at), short)
	assert.Equal(t, visible(first.d), visible(again.d))
	s.publish("discard", nil)
	d, state := s.parked()
	assert.Equal(t, "discard", d.MessageId)
	assert.Equal(t, "the error is permanent", state.Reason)
	rabbittest.Next(t, calls)
	s.publish("manual", nil)
	d, state = s.parked()
	assert.Equal(t, "manual", d.MessageId)
	assert.Contains(t, state.LastError(), "Manual")
}
