package backend_test

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/native"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/status"
)

func nativeConfig(t testing.TB, b *rabbit.Broker) backend.Config {
	cfg := config(t)
	cfg.URL, cfg.Backend = b.URL(), native.Name
	return cfg
}

// TestNative_TooOld: a broker that would deliver at once is refused before anything is declared, and
// auto takes the ladder.
func TestNative_TooOld(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	if b.From(4, 4) {
		rabbittest.Skipf(t, "RabbitMQ %s hides messages", b.Version())
	}
	cfg := nativeConfig(t, b)
	_, err := backend.Open(within(t), cfg)
	require.ErrorIs(t, err, delayer.ErrNotFound)
	require.ErrorContains(t, err, "RabbitMQ "+b.Version()+" does not hide messages until their time (it takes RabbitMQ 4.4 on all nodes")
	ch := channel(t)
	_, err = ch.QueueDeclarePassive(cfg.Prefix+".native.wait.0", true, false, false, false, nil)
	require.ErrorContains(t, err, "NOT_FOUND")

	var said rabbittest.Logbook
	cfg.Backend, cfg.Logger = backend.Auto, said.Logger()
	d := rabbittest.Open(t, cfg)
	require.Equal(t, cfg.BinaryLadder.Tick, d.Limits().Resolution)
	require.Contains(t, said.String(), "backend auto takes binaryladder")
	require.Contains(t, said.String(), "does not hide messages")
	chosen, err := backend.Choose(within(t), cfg)
	require.NoError(t, err)
	require.Equal(t, "binaryladder", chosen.Backend)
}

// TestNative_Auto: native, and messages that wait in the ladder still come.
func TestNative_Auto(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.NeedHiding(t))
	cfg := nativeConfig(t, r.Broker)
	queue := r.Queue("to", nil)
	box := r.Consume(queue)
	ladder := cfg
	ladder.Backend = "binaryladder"
	old, err := backend.Open(within(t), ladder)
	require.NoError(t, err)
	require.NoError(t, old.Publish(within(t), "", queue, time.Second, amqp091.Publishing{Body: []byte("ladder")}))
	require.NoError(t, old.Close())
	var said rabbittest.Logbook
	cfg.Backend, cfg.Logger = backend.Auto, said.Logger()
	d := rabbittest.Open(t, cfg)
	require.Equal(t, time.Millisecond, d.Limits().Resolution)
	require.Contains(t, said.String(), "backend auto takes native")
	require.NoError(t, d.Publish(within(t), "", queue, 3*time.Second, amqp091.Publishing{Body: []byte("native")}))
	require.Equal(t, "ladder", string(rabbittest.Next(t, box).Body))
	require.Equal(t, "native", string(rabbittest.Next(t, box).Body))
}

// TestNative_Header: at a quorum queue the header does no harm, a message that has it may be
// published again, and one that a program has set is refused.
func TestNative_Header(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.NeedHiding(t))
	d := rabbittest.Open(t, nativeConfig(t, r.Broker))
	queue := r.Prefix + "-quorum"
	_, err := r.Ch.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": "quorum"})
	require.NoError(t, err)
	defer func() { _, _ = r.Ch.QueueDelete(queue, false, false, false) }()
	box := r.Consume(queue)
	const delay = 300 * time.Millisecond
	var headers amqp091.Table
	for range 3 {
		before := time.Now()
		require.NoError(t, d.Publish(within(t), "", queue, delay, amqp091.Publishing{Headers: headers}))
		headers = rabbittest.Next(t, box).Headers
		require.False(t, time.Now().Before(before.Add(delay)), "early")
		require.IsType(t, int64(0), headers["x-opt-delivery-time"])
	}
	headers["x-opt-delivery-time"] = time.Now().Add(time.Hour).UnixMilli()
	err = d.Publish(within(t), "", queue, delay, amqp091.Publishing{Headers: headers})
	require.ErrorIs(t, err, delayer.ErrInvalid)
}

// TestNative_AnotherQueue: a queue that does not hide messages takes the place of a waiting queue.
// Nothing comes early by it, and when it is gone all goes on.
func TestNative_AnotherQueue(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.NeedHiding(t))
	cfg := nativeConfig(t, r.Broker)
	cfg.Native.Queues = 1
	d := rabbittest.Open(t, cfg)
	queue := r.Queue("to", nil)
	box := r.Consume(queue)
	const delay = time.Second
	publish := func() (time.Time, error) {
		before := time.Now()
		return before, d.Publish(within(t), "", queue, delay, amqp091.Publishing{})
	}
	_, err := publish()
	require.NoError(t, err)
	rabbittest.Next(t, box)
	wait := cfg.Prefix + ".native.wait.0"
	_, err = r.Ch.QueueDelete(wait, false, false, false)
	require.NoError(t, err)
	_, err = r.Ch.QueueDeclare(wait, true, false, false, false, amqp091.Table{
		"x-queue-type": "classic", "x-message-ttl": int64(0), "x-dead-letter-exchange": cfg.Prefix + ".delivery",
	})
	require.NoError(t, err)
	_, err = publish()
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.True(t, delayer.SafeToRetry(err))
	select {
	case <-box:
		t.Fatal("early")
	default:
	}
	_, err = r.Ch.QueueDelete(wait, false, false, false)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		before, err := publish()
		if err != nil {
			return false
		}
		rabbittest.Next(t, box)
		return !time.Now().Before(before.Add(delay))
	}, time.Minute, 100*time.Millisecond)
}

// TestNative_Counts: AMQP counts nothing of what is hidden, so status asks the management API, and
// Remove refuses.
func TestNative_Counts(t *testing.T) {
	t.Parallel()
	rabbittest.NeedHiding(t)
	b := rabbittest.Own(t, rabbit.Options{Plugins: []string{"rabbitmq_management"}})
	if b.Management() == "" || !b.From(4, 4) {
		rabbittest.Skipf(t, "the broker, of its own, has no management API or is older than RabbitMQ 4.4")
	}
	r := rabbittest.NewRig(t, b)
	cfg := nativeConfig(t, b)
	queue := r.Queue("to", nil)
	d, err := backend.Open(within(t), cfg)
	require.NoError(t, err)
	for range 5 {
		require.NoError(t, d.Publish(within(t), "", queue, time.Hour, amqp091.Publishing{}))
	}
	require.NoError(t, d.Close())
	require.ErrorIs(t, backend.Remove(within(t), cfg, false), delayer.ErrConfig, "it cannot look")
	waiting := func() *int {
		reader, err := status.Open(within(t), status.Config{Backend: cfg})
		require.NoError(t, err)
		defer reader.Close() //nolint:errcheck // it only reads
		s, err := reader.Read(within(t))
		require.NoError(t, err)
		return s.Waiting
	}
	require.Nil(t, waiting(), "not known")
	cfg.Management = b.Management()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.Eventually(t, func() bool {
		n := waiting()
		return n != nil && *n == 5
	}, 3*objects.HiddenLag, time.Second)
	err = backend.Remove(ctx, cfg, false)
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, "messages: 5, in the queues of native")
	require.NoError(t, backend.Remove(ctx, cfg, true))
	names, err := b.Ctl(ctx, "list_queues", "-q", "name")
	require.NoError(t, err)
	require.False(t, strings.Contains(names, cfg.Prefix), names)
}
