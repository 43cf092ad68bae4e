package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestRepairs_OncePerGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r repairs
		a, b := gap{queue: "wait.01", words: 1}, gap{queue: "wait.01", words: 2}
		require.True(t, r.due(a, time.Now()))
		require.True(t, r.due(b, time.Now()), "keys of another number of words need bindings of their own")
		require.False(t, r.due(a, time.Now()))
		time.Sleep(mendEvery)
		require.True(t, r.due(a, time.Now()))
	})
}

// TestMover_MendsOneDestination: a message that has missed its bindings costs those of its own
// destination, however many others are bound.
func TestMover_MendsOneDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		control := &slow{}
		d := NewDestinations(NewStage("p", true), control, "test", quiet)
		defer d.Close()
		const routes = 300
		for i := range routes {
			_, err := d.Bind(t.Context(), "", fmt.Sprint("q", i), nil, time.Hour)
			require.NoError(t, err)
		}
		m := &Mover{cfg: MoverConfig{Destinations: d}, stage: d.stage, log: quiet}
		time.Sleep(time.Millisecond)
		missed := func(queue string) int64 {
			before := control.calls.Load()
			m.mend(t.Context(), &letter{Delivery: &amqp091.Delivery{
				RoutingKey: queue, Headers: amqp091.Table{"x-death": []any{amqp091.Table{"queue": "wait.01"}}},
			}})
			return control.calls.Load() - before
		}
		require.EqualValues(t, 1, missed("q7"))
		require.Zero(t, missed("q7"), "it was just mended")
		require.EqualValues(t, 1, missed("q8"))
		require.EqualValues(t, 1, missed("another process's"))
	})
}

func TestLastQueue(t *testing.T) {
	require.Empty(t, lastQueue(nil))
	require.Empty(t, lastQueue(amqp091.Table{"x-death": "forged"}))
	require.Equal(t, "wait.01", lastQueue(amqp091.Table{"x-death": []any{
		amqp091.Table{"queue": "wait.01"}, amqp091.Table{"queue": "wait.03"},
	}}))
}
