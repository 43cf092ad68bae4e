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
	d := w.slots(controls)
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

// slotsSilentSlot: a slot without a majority answers neither who writes to it nor its consumer. What
// would go there goes elsewhere, and nothing else waits for it, nor does the end of the process.
func slotsSilentSlot(t *testing.T, w *workbench) {
	d := w.slots(controls)
	queue, a := w.queue(), newMessages()
	got := w.Consume(queue)
	w.publish(d, queue, a, "before", time.Millisecond)
	w.settle(got, a)
	due := time.Now().Add(3 * seconds.width)
	for i := range 2 {
		rabbittest.Suspend(t, rabbittest.Broker(t), w.slot(seconds, time.Until(due)+time.Duration(i)*seconds.width))
	}
	for i := range 5 {
		w.publish(d, queue, a, fmt.Sprint(i), time.Until(due)+time.Duration(i)*time.Second)
	}
	t.Logf("beside silent slots late by %v", w.settle(got, a))
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	require.NoError(t, rabbittest.Next(t, closed))
}
