package broker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// sized is a message to a queue whose body has so many bytes.
func sized(queue string, n int) broker.Publishing {
	return sealed(queue, amqp091.Publishing{Body: make([]byte, n)})
}

// TestStuck_Many: more callers than a channel has slots, to a queue that has answered until then.
// The broker would stop reading the whole connection if all of their messages were sent.
func TestStuck_Many(t *testing.T) {
	t.Parallel()
	p, c := open(t, rabbittest.Broker(t).URL(), noReset)
	stuck, good := declare(t, c, amqp091.Table{"x-queue-type": "quorum"}), declare(t, c, nil)
	require.NoError(t, p.Publish(within(t), to(good)))
	require.NoError(t, p.PublishDirect(within(t), to(good)))
	require.NoError(t, p.PublishDirect(within(t), to(stuck)))
	rabbittest.Suspend(t, rabbittest.Broker(t), stuck)
	ctx, cancel := context.WithTimeout(within(t), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var unknown atomic.Int64
	for range 1100 {
		wg.Go(func() {
			err := p.PublishDirect(ctx, to(stuck))
			if errors.Is(err, delayer.ErrUnknown) {
				unknown.Add(1)
			} else if !errors.Is(err, delayer.ErrNotSent) {
				t.Errorf("to a queue that does not answer: %v", err)
			}
		})
	}
	both := func() {
		t.Helper()
		soon, cancel := context.WithTimeout(t.Context(), patience) // long, on a busy machine
		defer cancel()
		require.NoError(t, p.Publish(soon, to(good)))
		require.NoError(t, p.PublishDirect(soon, to(good)))
	}
	for ctx.Err() == nil {
		both()
	}
	wg.Wait()
	both() // nor afterwards
	require.Positive(t, unknown.Load())
	require.LessOrEqual(t, unknown.Load(), int64(128), "they were sent")
}
