package controller_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// slotsLargeAfterSmall: a controller that has learned that messages are small does not take gigabytes when
// they are large. With tickets it cannot deliver before it has read a mark that is behind them all.
func slotsLargeAfterSmall(t *testing.T, w *workbench) {
	const memory, large, many = 8 << 20, 1 << 20, 100
	for _, schedule := range []bool{false, true} {
		t.Run(fmt.Sprint("schedule=", schedule), func(t *testing.T) {
			w := &workbench{w.In(t), w.opts}
			d := w.slots(delayer.Off)
			queue := w.queue()
			got := w.Consume(queue)
			begin := time.Now()
			send := func(n, size int) {
				together(n, func(i int) {
					msg := amqp091.Publishing{MessageId: fmt.Sprint(size, i), Body: make([]byte, size)}
					left := time.Until(begin.Add(13 * time.Second))
					if schedule {
						_, err := d.Schedule(t.Context(), "", queue, left, msg)
						require.NoError(t, err)
						return
					}
					require.NoError(t, d.Publish(t.Context(), "", queue, left, msg))
				})
			}
			send(500, 1)
			send(many, large)
			var held, most atomic.Int64
			opts := w.opts
			opts.Observer.Held = func(e delayer.HeldEvent) {
				now := held.Add(int64(e.Bytes))
				most.Store(max(most.Load(), now))
			}
			c := rabbittest.Open(t, backend.Config{
				Options: opts, Backend: controller.Name, Controller: controller.Config{Memory: memory},
			})
			for range 500 + many {
				rabbittest.Next(w, got)
			}
			t.Logf("at most %d KiB, the last %v late", most.Load()>>10, time.Since(begin.Add(13*time.Second)))
			// What the client has read is counted once the machine is told. While that waits for a processor, a
			// megabyte more comes each millisecond.
			const readBefore = 24
			require.Less(t, most.Load(), int64(memory+readBefore*large), "of %d MiB", many)
			require.NoError(t, c.Close())
			require.NoError(t, d.Close())
		})
	}
}
