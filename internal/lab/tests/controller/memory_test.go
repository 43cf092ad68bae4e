package controller_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// slotsLargeAfterSmall: a controller that has learned that messages are small does not take
// gigabytes when they are large. With tickets it cannot deliver before it has read a mark that is
// behind them all.
func slotsLargeAfterSmall(t *testing.T, w *workbench) {
	const memory, large, many = 8 << 20, 1 << 20, 60
	d := w.slots(publishes)
	queue := w.queue()
	got := w.Consume(queue)
	due := time.Now().Add(13 * time.Second)
	send := func(n, size int) {
		together(n, func(i int) {
			msg := amqp091.Publishing{MessageId: fmt.Sprint(size, i), Body: make([]byte, size)}
			_, err := d.Schedule(t.Context(), delayer.Message{Key: queue, Delay: time.Until(due), Publishing: msg})
			require.NoError(t, err)
		})
	}
	send(500, 1)
	send(many, large)
	var held, most atomic.Int64
	w.opts.Observer.Held = func(e delayer.HeldEvent) {
		now := held.Add(int64(e.Bytes))
		most.Store(max(most.Load(), now))
	}
	c := w.open(controller.Config{Wheel: controller.Slots, Memory: memory})
	// Each portion of 8 MiB waits for marks of its own: on a busy machine there are long gaps.
	const gap = 3 * rabbittest.Patience
	for range 500 + many {
		select {
		case <-got:
		case <-time.After(gap):
			require.FailNow(t, "nothing comes")
		}
	}
	t.Logf("at most %d KiB, the last %v late", most.Load()>>10, time.Since(due))
	// What the client has read is counted once the machine is told. While that waits for a
	// processor, a megabyte more comes each millisecond.
	const readBefore = 40
	require.Less(t, most.Load(), int64(memory+readBefore*large), "of %d MiB", many)
	require.NoError(t, c.Close())
	require.NoError(t, d.Close())
}
