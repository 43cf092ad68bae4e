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
		Ours: true, Known: true,
		Delivery: amqp091.Delivery{RoutingKey: "q"}, Envelope: message.Envelope{Due: time.Now().Add(-time.Hour)},
	}
	stays, err := s.Unfit(t.Context(), early)
	require.NoError(t, err)
	require.Empty(t, stays)
	_, _, asked := s.clock.Now()
	require.False(t, asked, "no clock is needed")

	early.Remaining = time.Minute
	stays, err = s.Unfit(t.Context(), early)
	require.NoError(t, err)
	require.Empty(t, stays, "the broker's time is asked for, and says the same on one machine")
	now, err := s.earliest(t.Context())
	require.NoError(t, err)
	require.WithinRange(t, now, time.Now().Add(-time.Minute), time.Now())

	early.Came = now.Add(time.Hour)
	stays, err = s.Unfit(t.Context(), early)
	require.NoError(t, err)
	require.Contains(t, stays, "it is not due before")
}

func TestSender_BrokersTimeRefused(t *testing.T) {
	client := filled(t, 0)
	client.prefix = "amq" // nobody may declare such names
	s, err := client.Sender(t.Context())
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Unfit(t.Context(), &Message{Ours: true, Envelope: message.Envelope{Due: time.Now()}})
	require.ErrorIs(t, err, delayer.ErrAccess)
	require.ErrorContains(t, err, "the user must configure")
}
