package rounds

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// TestConsumer_Holds: what comes into the memory leaves it, and what goes beyond waits in a queue.
func TestConsumer_Holds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New("p", delayer.Quorum, 20, time.Minute)
		require.NoError(t, err)
		var messages, bytes []int
		session := &settle.Session{Settler: settle.Settler{Observer: delayer.Observer{
			Held: func(e delayer.HeldEvent) { messages, bytes = append(messages, e.Messages), append(bytes, e.Bytes) },
		}}}
		c := &consumer{at: &controller{wheel: w, session: session}}
		holding, release := context.WithCancel(t.Context())
		c.holding = holding
		for _, left := range []time.Duration{20 * time.Second, 30 * time.Second} {
			headers := stamp{clock: "another", left: left}.header([]any{"~d:=x"}, nil)
			headers[delayer.Header] = message.NewEnvelope(time.Now(), left, "").String()
			c.working.Go(func() { c.handle(&amqp091.Delivery{Body: []byte("body"), Headers: headers}) })
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{1, 1}, messages)
		require.False(t, c.hold(1, mostHeldBytes-7), "too many bytes")
		release()
		c.working.Wait()
		require.Equal(t, []int{1, 1, -1, -1}, messages)
		require.Equal(t, []int{4, 4, -4, -4}, bytes)
		require.True(t, c.hold(mostHeld, mostHeldBytes))
		require.False(t, c.hold(1, 0), "too many messages")
	})
}

// A channel answers so.
type channel struct {
	amqp091.Acknowledger
	answer func() error
}

func (c channel) Qos(int, int, bool) error { return c.answer() }

// TestConsumer_Ours: a channel that has not been heard of for long is asked, before a message is
// published that may be another's.
func TestConsumer_Ours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked, lost := &consumer{answered: time.Now()}, 0, errors.New("the channel is closed")
		c.alive, c.abandon = context.WithCancelCause(t.Context())
		ours := func(answer func() error) error {
			return c.ours(channel{answer: func() error { asked++; return answer() }})
		}
		open := func() error { return nil }
		time.Sleep(oursFor)
		require.NoError(t, ours(open))
		require.Zero(t, asked)
		time.Sleep(time.Nanosecond)
		require.NoError(t, ours(open))
		require.NoError(t, ours(open))
		require.Equal(t, 1, asked)
		time.Sleep(time.Minute)
		require.NoError(t, ours(func() error {
			if asked == 2 {
				time.Sleep(time.Minute) // the process stands still while it asks
			}
			return nil
		}))
		require.Equal(t, 3, asked)
		time.Sleep(time.Minute)
		require.ErrorIs(t, ours(func() error { return lost }), lost)
		require.ErrorIs(t, context.Cause(c.alive), lost)
	})
}
