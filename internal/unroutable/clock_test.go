package unroutable

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/message"
)

// TestSender_BrokersTime: the operator's clock, which says that the message is due, decides nothing.
func TestSender_BrokersTime(t *testing.T) {
	client := filled(t, 0)
	s, err := client.Sender(t.Context())
	require.NoError(t, err)
	defer s.Close()
	early := &Message{
		Ours: true, Known: true, Remaining: time.Minute,
		Delivery: amqp091.Delivery{RoutingKey: "q"}, Envelope: message.Envelope{Due: time.Now().Add(-time.Hour)},
	}
	stays, err := s.Unfit(t.Context(), early)
	require.NoError(t, err)
	require.Empty(t, stays, "the broker's time is asked for, and says the same on one machine")
	require.WithinRange(t, s.clock.now(), time.Now().Add(-time.Minute), time.Now())

	s.clock.answer = s.clock.answer.Add(-2 * time.Hour)
	stays, err = s.Unfit(t.Context(), early)
	require.NoError(t, err)
	require.Contains(t, stays, "it is not due before")
	s.clock = clock{}
	early.Remaining = 0
	stays, err = s.Unfit(t.Context(), early)
	require.NoError(t, err)
	require.Empty(t, stays)
	require.Zero(t, s.clock, "no clock is needed")
}

func TestClient_AskClockRefused(t *testing.T) {
	client := filled(t, 0)
	client.prefix = "amq" // nobody may declare such names
	_, err := client.askClock(t.Context())
	require.ErrorIs(t, err, delayer.ErrAccess)
	require.ErrorContains(t, err, "the user must configure")
}
