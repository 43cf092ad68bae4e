package faults_test

import (
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestFaults_SecondAttempt: a queue that dead-letters at least once tries again what was not confirmed.
// RabbitMQ 3.10 to 3.12 forget the BCC keys in between, by which the ladder finds its way. Such a message is misrouted,
// and the Delayer sends it on. Later versions remember.
func TestFaults_SecondAttempt(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	s, prefix := subjects()[0], rabbittest.Prefix(t)
	queue, next := prefix+"-in", prefix+".ladder.wait.100ms"
	d, err := s.Open(t.Context(), []string{b.URL()}, prefix)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	ch := rabbittest.Channel(t, b)
	_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
	arrived := consume(t, ch, queue)

	publish := func(body string) {
		const twoHops = 300 * time.Millisecond // 200 ms, and then 100 ms in the next queue
		require.NoError(t, d.Publish(t.Context(), "", queue, twoHops, amqp091.Publishing{Body: []byte(body)}))
	}
	publish("before")
	require.Equal(t, "before", string((<-arrived).Body))
	// The next queue takes nothing and confirms nothing for a while, as when it moves to another node.
	suspend(t, b, "suspend", next)
	publish("twice")
	<-time.After(3 * time.Second) // what cannot be signalled: that the broker has tried again
	suspend(t, b, "resume", next)
	got := <-arrived
	assert.Equal(t, "twice", string(got.Body))
	assert.Equal(t, queue, got.RoutingKey)
	assert.Contains(t, got.Headers, delayer.Header)
	q, err := ch.QueueDeclarePassive(s.Unroutable(prefix), true, false, false, false, nil)
	require.NoError(t, err)
	assert.Zero(t, q.Messages)
}

func consume(t *testing.T, ch *amqp091.Channel, queue string) <-chan amqp091.Delivery {
	t.Helper()
	const autoAck = true
	in, err := ch.Consume(queue, "", autoAck, false, false, false, nil)
	require.NoError(t, err)
	return in
}

// suspend does it to the process that a quorum queue of one replica is.
func suspend(t *testing.T, b *rabbit.Broker, what, queue string) {
	t.Helper()
	_, err := b.Ctl(t.Context(), "eval", fmt.Sprintf("sys:%s('%%2F_%s').", what, queue))
	require.NoError(t, err)
}
