package backend_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// The broker tries again after ten seconds, not three minutes, and has the management API: tests
// that need either would otherwise boot a node each.
func TestMain(m *testing.M) {
	rabbittest.Main(m, rabbit.Options{
		Plugins: []string{rabbittest.DelayedMessages, "rabbitmq_management", "rabbitmq_federation", "rabbitmq_sharding"},
		Args:    rabbit.DeadLetterRetry(10 * time.Second),
	})
}

var silent = slog.New(slog.DiscardHandler)

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func config(t testing.TB) backend.Config {
	return backend.Config{
		Options:      delayer.Options{URL: rabbittest.Broker(t).URL(), Prefix: rabbittest.Prefix(t), Logger: silent},
		BinaryLadder: binaryladder.Config{Tick: 100 * time.Millisecond, Steps: "100ms,200ms,400ms,800ms"},
	}
}

func channel(t testing.TB) *amqp091.Channel {
	t.Helper()
	return rabbittest.NewRig(t, rabbittest.Broker(t)).Ch
}

var consume = rabbittest.Arrivals

func TestOpen_OtherConfiguration(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Prefix = cfg.Prefix[:10]
	rabbittest.Open(t, cfg)
	other := cfg
	other.BinaryLadder.Steps += ",1600ms"
	_, err := backend.Open(within(t), other)
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, "declared as "+cfg.Prefix+":source,list:4:")
	require.ErrorContains(t, err, "use the same configuration or another prefix")
	cfg.Prefix = rabbittest.Prefix(t)
	cfg.Prefix += strings.Repeat("x", 128-len(cfg.Prefix)) // the broker's answer has no room for it
	rabbittest.Open(t, cfg)
	cfg.BinaryLadder.Steps += ",1600ms"
	_, err = backend.Open(within(t), cfg)
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, "declared as another configuration")
}

func TestOpen_OtherArguments(t *testing.T) {
	t.Parallel()
	cfg, ch := config(t), channel(t)
	queue, exchange := cfg.Prefix+".ladder.wait.400ms", cfg.Prefix+".ladder.step.200ms"
	refused := func(want string) {
		t.Helper()
		_, err := backend.Open(within(t), cfg)
		require.ErrorIs(t, err, delayer.ErrConflict)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "(delete it, or use another prefix)")
	}
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
	refused(queue + `": conflicts with what the broker holds: 406 PRECONDITION_FAILED - inequivalent arg`)
	_, err = ch.QueueDelete(queue, false, false, false)
	require.NoError(t, err)

	_ = ch.ExchangeDelete(exchange, false, false)
	require.NoError(t, ch.ExchangeDeclare(exchange, "headers", true, false, false, false, nil))
	refused(exchange + `": conflicts with what the broker holds: 406 PRECONDITION_FAILED - inequivalent arg 'type'`)
	require.NoError(t, ch.ExchangeDelete(exchange, false, false))
	rabbittest.Open(t, cfg) // what the failed Open had declared is no hindrance, and goes with the test
}

func TestOpen_NoPermissions(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	cfg := config(t)
	rabbittest.Open(t, cfg)
	refused := func(t *testing.T, err error, want string) {
		t.Helper()
		require.ErrorIs(t, err, delayer.ErrAccess)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "rabbitmqctl set_permissions")
		require.NotContains(t, err.Error(), "p@ss")
	}

	t.Run("to configure", func(t *testing.T) {
		mine := cfg
		mine.URL = rabbittest.User(t, b, b.URL(), "^$", ".*", ".*")
		_, err := backend.Open(within(t), mine)
		refused(t, err, `declare binaryladder exchange "`+cfg.Prefix)
	})
	t.Run("to write to the destination", func(t *testing.T) {
		queue := rabbittest.Prefix(t)
		consume(t, channel(t), queue)
		mine := cfg
		mine.URL = rabbittest.User(t, b, b.URL(), "^"+cfg.Prefix, "^"+cfg.Prefix, "^"+cfg.Prefix)
		d, err := backend.Open(within(t), mine)
		require.NoError(t, err)
		defer d.Close() //nolint:errcheck // the test's end
		err = d.Publish(within(t), "", queue, time.Second, amqp091.Publishing{})
		refused(t, err, `queue "`+queue)
		require.True(t, delayer.SafeToRetry(err))
	})
}
