package controller_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// fullQueue declares a queue that takes a few messages and refuses the others.
func (w *workbench) fullQueue() string {
	w.Helper()
	name := rabbittest.Prefix(w)
	w.Declare(name, amqp091.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"})
	return name
}

// TestController_FullDestinationIsTriedSeldom: it is left alone for a while after it has refused a
// message, and for longer each time, whatever waits for it. Messages for another are on time
// meanwhile. When there is room, everything arrives.
func TestController_FullDestinationIsTriedSeldom(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		const messages, beside, lasts = 500, 100, 7 * time.Second
		seen := &events{misrouted: make(chan delayer.MisroutedEvent, 10)}
		w.opts.Observer = seen.observer()
		d := w.open(controller.Config{Wheel: controller.Rounds, Levels: 10, Tick: 10 * time.Millisecond}) // up to 5.12 s
		defer func() { require.NoError(t, d.Close()) }()
		full, other := w.fullQueue(), w.queue()
		refused, punctual := newMessages(), newMessages()
		got := w.Consume(other)
		for i := range messages {
			w.publish(d, full, refused, fmt.Sprint(i), 100*time.Millisecond)
		}
		for i := range beside {
			w.publish(d, other, punctual, fmt.Sprint(i), time.Duration(i+1)*lasts/beside)
		}
		late := w.settle(got, punctual)
		t.Logf("beside a full destination late by at most %v", slices.Max(late))
		tries := seen.tries(full)
		require.Greater(t, tries, 1, "it is tried again")
		require.Less(t, tries, messages+beside, "each message once at most, and one after each pause")
		w.settle(w.Consume(full), refused)
	})
}

// tries is how often messages were delivered to a queue, or could not be.
func (e *events) tries(queue string) (tries int) {
	e.note(func() {
		for _, d := range e.delivered {
			if d.Key == queue {
				tries++
			}
		}
	})
	return tries
}
