package controller

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// TestObserver_Held: what comes into the memory leaves it, released or not.
func TestObserver_Held(t *testing.T) {
	b, _, err := newBlueprint(Config{Wheel: Rounds, Tick: time.Minute})
	require.NoError(t, err)
	var messages, bytes []int
	c := &consumer{router: rounds{}, holder: newHolder(10, 100), runner: &runner{blueprint: b, observer: delayer.Observer{
		Held: func(e delayer.HeldEvent) { messages, bytes = append(messages, e.Messages), append(bytes, e.Bytes) },
	}}}
	for _, left := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second} {
		c.route(c, incoming{
			Delivery: &amqp091.Delivery{Body: []byte("body")}, stamp: stamp{clock: clockID, due: reading(time.Now()) + left},
		})
	}
	require.Equal(t, []int{1, 1, 1}, messages)
	c.changed(c.holder.drop())
	require.Equal(t, []int{1, 1, 1, -3}, messages)
	require.Equal(t, []int{4, 4, 4, -12}, bytes)
	require.False(t, c.holder.holds())
	c.changed(c.holder.drop())
	require.Len(t, messages, 4, "nothing has changed")
}
