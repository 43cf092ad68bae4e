package backend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// stuckQueue is a quorum queue that confirms nothing, as one without a majority.
func stuckQueue(t *testing.T) string {
	t.Helper()
	ch, queue := channel(t), rabbittest.Prefix(t)
	_, err := ch.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": "quorum"})
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ch.QueueDelete(queue, false, false, false) })
	rabbittest.Suspend(t, rabbittest.Broker(t), queue)
	return queue
}

// TestPublishBatch_StuckDestination: messages to a queue that does not confirm hold up no other of
// the batch, whatever their delay and destination. When ctx ends, only what was sent is unknown.
func TestPublishBatch_StuckDestination(t *testing.T) {
	t.Parallel()
	d, good, other, stuck := rabbittest.Open(t, config(t)), rabbittest.Prefix(t), rabbittest.Prefix(t), stuckQueue(t)
	ch := channel(t)
	in, others := consume(t, ch, good), consume(t, ch, other)
	const messages = 3000
	list := make([]delayer.Message, messages)
	want := map[string]bool{}
	for i := range list {
		m := delayer.Message{Key: good, Publishing: amqp091.Publishing{MessageId: fmt.Sprint(i)}}
		switch i % 5 {
		case 0:
			m.Key = stuck
		case 1:
			m.Delay = 100 * time.Millisecond
		case 2:
			m.Key = other
		}
		list[i] = m
		want[m.Publishing.MessageId] = m.Key != stuck
	}
	ctx, cancel := context.WithCancel(within(t))
	go func() { // ctx ends once all others have arrived
		defer cancel()
		for left := messages / 5 * 4; left > 0; left-- {
			select {
			case m := <-in:
				delete(want, m.MessageId)
			case m := <-others:
				delete(want, m.MessageId)
			case <-time.After(20 * time.Second):
				return
			}
		}
	}()
	unknown, confirms := 0, 0
	for i, err := range d.PublishBatch(ctx, list) {
		switch {
		case list[i].Key != stuck && errors.Is(err, delayer.ErrUnknown): // it came before its confirm
			confirms++
		case list[i].Key != stuck:
			require.NoError(t, err, "message %d", i)
		case errors.Is(err, delayer.ErrUnknown):
			unknown++
		default:
			require.ErrorIs(t, err, delayer.ErrNotSent, "message %d", i)
		}
	}
	require.Positive(t, unknown)
	require.LessOrEqual(t, unknown, 128)
	require.Less(t, confirms, messages/10, "all but the last were confirmed")
	for id, others := range want {
		require.False(t, others, "message %s did not come", id)
	}
}
