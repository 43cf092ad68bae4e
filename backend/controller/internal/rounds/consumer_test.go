package rounds

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
)

// TestObserver_Held: what comes into the memory leaves it, released or not.
func TestObserver_Held(t *testing.T) {
	w, err := New("p", delayer.Quorum, 20, time.Minute)
	require.NoError(t, err)
	var messages, bytes []int
	session := &settle.Session{Observer: delayer.Observer{
		Held: func(e delayer.HeldEvent) { messages, bytes = append(messages, e.Messages), append(bytes, e.Bytes) },
	}}
	c := &consumer{held: newMemory[stamp.Message](10, 100), at: &controller{wheel: w, session: session}}
	for _, left := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second} {
		c.route(stamp.Message{
			Delivery: &amqp091.Delivery{Body: []byte("body")}, Stamp: stamp.Stamp{}.Next(time.Now(), left, 0),
		})
	}
	require.Equal(t, []int{1, 1, 1}, messages)
	require.InDelta(t, 10*time.Second, c.release(), float64(time.Second), "until the first is due")
	c.forget()
	require.Equal(t, []int{1, 1, 1, -3}, messages)
	require.Equal(t, []int{4, 4, 4, -12}, bytes)
	c.changed(0, 0)
	require.Len(t, messages, 4, "nothing has changed")
}
