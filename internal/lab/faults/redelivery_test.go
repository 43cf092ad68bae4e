package faults_test

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestFaults_SecondAttempt: a queue that dead-letters at least once tries again what was refused.
// RabbitMQ 3.10 to 3.12 forget the BCC keys in between, by which the ladder finds its way. Such a
// message is misrouted, and the Delayer sends it on. Later versions remember.
func TestFaults_SecondAttempt(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	s, prefix := subjects()[0], rabbittest.Prefix(t)
	queue := prefix + "-in"
	d, err := s.Open(t.Context(), []string{b.URL()}, prefix)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	ch := rabbittest.Channel(t, b)
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"})
	require.NoError(t, err)
	fill(t, ch, queue)

	const twoHops = 300 * time.Millisecond // 200 ms, and then 100 ms in the next queue
	require.NoError(t, d.Publish(t.Context(), "", queue, twoHops, amqp091.Publishing{Body: []byte("twice")}))
	<-time.After(twoHops + time.Second) // what cannot be signalled: that the broker has tried, and was refused
	arrived := consume(t, ch, queue)
	got := <-arrived
	for string(got.Body) == filler {
		got = <-arrived
	}
	assert.Equal(t, "twice", string(got.Body))
	assert.Equal(t, queue, got.RoutingKey)
	assert.Contains(t, got.Headers, delayer.Header)
	q, err := ch.QueueDeclarePassive(s.Unroutable(prefix), true, false, false, false, nil)
	require.NoError(t, err)
	assert.Zero(t, q.Messages)
}

const filler = "filler"

// fill publishes to a queue until it refuses.
func fill(t *testing.T, ch *amqp091.Channel, queue string) {
	t.Helper()
	require.NoError(t, ch.Confirm(false))
	for {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, false, false, amqp091.Publishing{Body: []byte(filler)})
		require.NoError(t, err)
		if accepted, err := confirm.WaitContext(t.Context()); !accepted {
			require.NoError(t, err)
			return
		}
	}
}

func consume(t *testing.T, ch *amqp091.Channel, queue string) <-chan amqp091.Delivery {
	t.Helper()
	const autoAck = true
	in, err := ch.Consume(queue, "", autoAck, false, false, false, nil)
	require.NoError(t, err)
	return in
}
