package backend_test

import (
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestPublish_FullDestination: what it refuses is not lost. It arrives when there is room, or, up
// to RabbitMQ 3.12, whose second attempt forgets BCC, is kept as unroutable.
func TestPublish_FullDestination(t *testing.T) {
	t.Parallel()
	if !rabbittest.Broker(t).Owned() {
		rabbittest.Skipf(t, "needs a broker that tries again soon")
	}
	ch, full := channel(t), rabbittest.Prefix(t)
	_, err := ch.QueueDeclare(full, true, false, false, false, amqp091.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"})
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ch.QueueDelete(full, false, false, false) })
	cfg := config(t)
	cfg.BinaryLadder = binaryladder.Config{Tick: 50 * time.Millisecond, Steps: "50ms,100ms"}
	d := rabbittest.Open(t, cfg)
	missing := map[string]bool{}
	const messages = 40 // more than stall a queue
	for i := range messages {
		id := fmt.Sprint(i)
		require.NoError(t, d.Publish(within(t), "", full, 50*time.Millisecond, amqp091.Publishing{MessageId: id}))
		missing[id] = true
	}
	for ctx, look := within(t), time.Tick(lookEvery); ; <-look { // until it is full
		q, err := ch.QueueDeclarePassive(full, true, false, false, false, nil)
		require.NoError(t, err)
		require.NoError(t, ctx.Err())
		if q.Messages > 0 {
			break
		}
	}
	in, err := ch.Consume(full, "", true, false, false, false, nil)
	require.NoError(t, err)
	kept, err := ch.Consume(cfg.Prefix+".unroutable", "", true, false, false, false, nil)
	require.NoError(t, err)
	for ctx := within(t); len(missing) > 0; {
		select {
		case m := <-in:
			delete(missing, m.MessageId)
		case m := <-kept:
			delete(missing, m.MessageId)
		case <-ctx.Done():
			t.Fatalf("missing: %v", missing)
		}
	}
}
