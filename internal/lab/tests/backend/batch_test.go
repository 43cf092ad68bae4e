package backend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestPublishBatch_BindingLost: what came back because a binding of ours is gone is sent again.
func TestPublishBatch_BindingLost(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	told := 0
	cfg.Observer.Published = func(_ context.Context, e delayer.PublishEvent) {
		told++
		assert.NoError(t, e.Err)
		assert.Positive(t, e.Took)
	}
	d, ch, queue := rabbittest.Open(t, cfg), channel(t), rabbittest.Prefix(t)
	in := consume(t, ch, queue)
	const delay = 100 * time.Millisecond
	require.NoError(t, d.Publish(t.Context(), "", queue, delay, amqp091.Publishing{MessageId: "first"}))
	<-in
	_, err := ch.QueueDelete(cfg.Prefix+".ladder.wait.100ms", false, false, false)
	require.NoError(t, err)

	const messages = 2000
	missing := map[string]bool{}
	list := make([]delayer.Message, messages)
	for i := range list {
		id := fmt.Sprint(i)
		list[i] = delayer.Message{Key: queue, Delay: delay, Publishing: amqp091.Publishing{MessageId: id}}
		missing[id] = true
	}
	for i, err := range d.PublishBatch(within(t), list) {
		require.NoError(t, err, "message %d", i)
	}
	require.Equal(t, 1+messages, told, "a message that is sent again is told once")
	for ctx := within(t); len(missing) > 0; {
		select {
		case m := <-in:
			require.True(t, missing[m.MessageId], "%s came twice", m.MessageId)
			delete(missing, m.MessageId)
		case <-ctx.Done():
			t.Fatalf("%d are missing", len(missing))
		}
	}
}

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
