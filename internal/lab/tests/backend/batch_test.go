package backend_test

import (
	"errors"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestPublishBatch_ClosedWhilePreparing: Close waits for the messages that were sent, and a batch
// that waits for a connection before it sends the next must not keep it from that. The broker is
// there and silent.
func TestPublishBatch_ClosedWhilePreparing(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	proxy, err := faults.NewProxy(cfg.URL)
	require.NoError(t, err)
	defer proxy.Close()
	ch, bound, unbound := channel(t), rabbittest.Prefix(t), rabbittest.Prefix(t)
	consume(t, ch, bound)
	consume(t, ch, unbound)
	rabbittest.Open(t, cfg) // it removes the topology in the end
	cfg.URL = proxy.URL(cfg.URL)
	d, err := backend.Open(within(t), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	list := []delayer.Message{{Key: bound, Delay: time.Second}, {Key: unbound, Delay: time.Second}, {Key: bound, Delay: time.Second}}
	// The destination of the first is bound when its turn comes, if not too much time passes.
	require.NoError(t, d.Publish(t.Context(), "", bound, time.Second, amqp091.Publishing{}))
	proxy.Set(faults.HalfOpen)
	results := make(chan []error, 1)
	go func() { results <- d.PublishBatch(t.Context(), list) }()
	select {
	case r := <-results:
		t.Fatalf("%v, from a broker that does not answer", r)
	case <-time.After(100 * time.Millisecond): // Close may also come first, and then shows nothing
	}
	require.NoError(t, d.Close())
	for i, err := range <-results {
		require.Error(t, err, "message %d", i)
		require.True(t, errors.Is(err, delayer.ErrUnknown) || errors.Is(err, delayer.ErrClosed), "message %d: %v", i, err)
	}
}
