package controller_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// slotsSilentDestination: a quorum queue that does not answer, as without a majority, costs its own
// messages alone, however many they are: all others come meanwhile. They come once it answers. How
// late the others are the simulator asks.
func slotsSilentDestination(t *testing.T, w *workbench) {
	const waiting, beside = 3000, 100
	const due, lasts = 8 * time.Second, 10 * time.Second
	d := w.slots(delayer.On)
	stuck, other := rabbittest.Prefix(t), w.queue()
	w.Declare(stuck, amqp091.Table{"x-queue-type": "quorum"})
	a, punctual := newMessages(), newMessages()
	got := w.Consume(other)

	batch := make([]delayer.Message, waiting)
	for i := range batch {
		id := fmt.Sprint("stuck ", i)
		batch[i] = delayer.Message{Key: stuck, Delay: due, Publishing: amqp091.Publishing{MessageId: id}}
		a.Ask(account.Course[string]{ID: id, Asked: a.Now(), Delay: due})
	}
	for i, err := range d.PublishBatch(t.Context(), batch) {
		require.NoError(t, err)
		a.Answer(batch[i].Publishing.MessageId, a.Now(), nil)
	}
	resume := rabbittest.Suspend(t, rabbittest.Broker(t), stuck)
	for i := range beside {
		w.publish(d, other, punctual, fmt.Sprint(i), due+time.Duration(i)*lasts/beside)
	}
	t.Logf("beside a silent destination late by at most %v", slices.Max(w.settle(got, punctual)))
	resume()
	w.settle(w.Consume(stuck), a)
	require.NoError(t, d.Close())
}

// slotsSilentSlot: a slot without a majority answers no consumer. The process does not wait for it
// when it ends, and nobody else waits for it meanwhile.
func slotsSilentSlot(t *testing.T, w *workbench) {
	d := w.slots(delayer.On)
	queue, a := w.queue(), newMessages()
	got := w.Consume(queue)
	w.publish(d, queue, a, "before", time.Second) // from now on the queue has no channel of its own
	due := time.Now().Add(5 * seconds.width)
	// The first is consumed from now on, and nothing is due in it. The second gets a mark, for a
	// message that is due in its minute.
	for _, silent := range []string{w.slot(seconds, 3*seconds.width), w.slot(minutes, time.Until(due))} {
		rabbittest.Suspend(t, rabbittest.Broker(t), silent)
	}
	_, err := d.Schedule(t.Context(), delayer.Message{Key: w.queue(), Delay: time.Until(due)})
	require.NoError(t, err)
	w.publish(d, queue, a, "after it", time.Until(due))
	t.Logf("beside silent slots late by %v", w.settle(got, a))
	began := time.Now()
	require.NoError(t, d.Close())
	require.Less(t, time.Since(began), 45*time.Second) // RabbitMQ lets it wait for a minute and more
}
