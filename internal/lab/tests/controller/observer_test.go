package controller_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// events are what an Observer was told.
type events struct {
	mu         sync.Mutex
	published  []delayer.PublishEvent
	rounds     []delayer.RoundEvent
	delivered  []delayer.DeliveryEvent
	held, came int // messages that are held, and that ever were
	bytes      int
	made, open int // connections
	misrouted  chan delayer.MisroutedEvent
}

func (e *events) observer() delayer.Observer {
	return delayer.Observer{
		Published: func(_ context.Context, event delayer.PublishEvent) {
			e.note(func() { e.published = append(e.published, event) })
		},
		Round:     func(event delayer.RoundEvent) { e.note(func() { e.rounds = append(e.rounds, event) }) },
		Delivered: func(event delayer.DeliveryEvent) { e.note(func() { e.delivered = append(e.delivered, event) }) },
		Held: func(event delayer.HeldEvent) {
			e.note(func() {
				e.held += event.Messages
				e.came += max(event.Messages, 0)
				e.bytes += event.Bytes
			})
		},
		Connection: func(event delayer.ConnectionEvent) {
			e.note(func() {
				if event.Was == delayer.ConnectionClosed {
					e.made++
					e.open++
				}
				if event.Now == delayer.ConnectionClosed {
					e.open--
				}
			})
		},
		Misrouted: func(event delayer.MisroutedEvent) {
			select {
			case e.misrouted <- event:
			default: // the first are looked at; an observer must not wait
			}
		},
	}
}

func (e *events) note(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// TestObserver_ADelayersLife: what is published, sent on, held, delivered, kept as unroutable,
// refused and returned to the broker at the end.
func TestObserver_ADelayersLife(t *testing.T) {
	t.Parallel()
	w := setUp(t, delayer.Quorum)
	seen := &events{misrouted: make(chan delayer.MisroutedEvent, 10)}
	w.opts.Observer = seen.observer()
	d := w.start()
	queue := w.queue()
	got := w.Consume(queue)
	msg := amqp091.Publishing{Body: []byte("body")}
	require.NoError(t, d.Publish(t.Context(), "", queue, 200*time.Millisecond, msg))
	rabbittest.Next(w, got)

	gone := rabbittest.Prefix(t)
	_, err := w.Ch.QueueDeclare(gone, true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, d.Publish(t.Context(), "", gone, 10*time.Second, msg)) // not due before the queue is deleted
	_, err = w.Ch.QueueDelete(gone, false, false, false)
	require.NoError(t, err)
	require.Equal(t, delayer.MisroutedEvent{Backend: "controller", Key: gone, Outcome: delayer.KeptUnroutable}, <-seen.misrouted)
	require.ErrorIs(t, d.Publish(t.Context(), "", gone, time.Second, msg), delayer.ErrUnroutable)
	require.NoError(t, d.Publish(t.Context(), "", queue, time.Hour, msg)) // on its rounds until the end
	require.NoError(t, d.Close())

	require.Len(t, seen.published, 4)
	for i, p := range seen.published {
		require.Positive(t, p.Took)
		require.Equal(t, i == 2, p.Err != nil)
	}
	require.Equal(t, []any{"controller", queue, 200 * time.Millisecond}, []any{seen.published[0].Backend, seen.published[0].Key, seen.published[0].Delay})
	require.NotEmpty(t, seen.rounds)
	require.Equal(t, 40*time.Millisecond, seen.rounds[0].Wait)
	require.Len(t, seen.delivered, 2)
	for _, e := range seen.delivered {
		require.NoError(t, e.Err)
		require.Greater(t, e.Lateness, -time.Millisecond, "the header has whole milliseconds")
	}
	require.Zero(t, seen.held, "nothing is held after Close")
	require.Zero(t, seen.bytes)
	require.Equal(t, 4, seen.made)
	require.Zero(t, seen.open)
}

// slotsObserver: what waits in slots is held before it is delivered.
func slotsObserver(t *testing.T, w *workbench) {
	seen := &events{misrouted: make(chan delayer.MisroutedEvent, 10)}
	w.opts.Observer = seen.observer()
	d := w.slots(controls)
	queue := w.queue()
	got := w.Consume(queue)
	require.NoError(t, d.Publish(t.Context(), "", queue, 2*time.Second, amqp091.Publishing{Body: []byte("body")}))
	rabbittest.Next(w, got)
	require.NoError(t, d.Publish(t.Context(), "", queue, time.Hour, amqp091.Publishing{}))
	require.NoError(t, d.Close())
	require.Len(t, seen.published, 2)
	ours := slices.DeleteFunc(seen.delivered, func(e delayer.DeliveryEvent) bool { return e.Key != queue }) // the wheel is others' too
	require.Len(t, ours, 1)
	require.NoError(t, ours[0].Err)
	require.Greater(t, ours[0].Lateness, -time.Millisecond, "the header has whole milliseconds")
	require.Positive(t, seen.came)
	require.Zero(t, seen.held, "nothing is held after Close")
	require.Zero(t, seen.bytes)
	require.Zero(t, seen.open)
}
