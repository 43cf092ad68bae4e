package delayer_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// recorder is a Delayer that notes what it is given, and fails for some keys.
type recorder struct {
	messages []delayer.Message
	fails    map[string]error
}

func (r *recorder) Publish(_ context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	r.messages = append(r.messages, delayer.Message{Exchange: exchange, Key: key, Delay: delay, Publishing: msg})
	return r.fails[key]
}
func (*recorder) Limits() delayer.Limits { return delayer.Limits{Max: math.MaxInt64} }
func (*recorder) Close() error           { return nil }

func TestPublishAt_Delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for name, c := range map[string]struct {
			at   time.Time
			want time.Duration
		}{
			"monotonic":         {now.Add(time.Minute), time.Minute},
			"wall clock":        {now.Add(time.Minute).Round(0), time.Minute},
			"another time zone": {now.Add(time.Hour).In(time.FixedZone("", 7200)), time.Hour},
			"to the nanosecond": {now.Add(time.Minute + 1), time.Minute + 1},
			"now":               {now, 0},
			"past":              {now.Add(-time.Nanosecond), 0},
			"long past":         {time.Unix(0, 0), 0},
			"before the epoch":  {time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), 0},
			"291 years":         {now.AddDate(291, 0, 0), now.AddDate(291, 0, 0).Sub(now)},
		} {
			var r recorder
			msg := amqp091.Publishing{MessageId: name}
			require.NoError(t, delayer.PublishAt(t.Context(), &r, "x", "k", c.at, msg), name)
			require.Equal(t, []delayer.Message{{Exchange: "x", Key: "k", Delay: c.want, Publishing: msg}}, r.messages, name)
		}
	})
}

// TestPublishAt_TooFar: a delay that was cut off would be early.
func TestPublishAt_TooFar(t *testing.T) {
	var r recorder
	for at, want := range map[time.Time]string{
		{}: `delayer: publish to queue "q": delay out of range: the zero time: set it, or use time.Now() to publish at once`,
		time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC): `delayer: publish to queue "q": delay out of range: 3000-01-01 is more than 292 years away`,
	} {
		err := delayer.PublishAt(t.Context(), &r, "", "q", at, amqp091.Publishing{})
		require.ErrorIs(t, err, delayer.ErrOutOfRange)
		require.EqualError(t, err, want)
		require.True(t, delayer.SafeToRetry(err))
	}
	err := delayer.PublishAt(t.Context(), &r, "x", "k", time.Time{}, amqp091.Publishing{})
	require.ErrorContains(t, err, `to exchange "x" with key "k"`)
	require.Empty(t, r.messages)

	r.fails = map[string]error{"k": delayer.ErrUnroutable}
	require.Equal(t, delayer.ErrUnroutable, delayer.PublishAt(t.Context(), &r, "x", "k", time.Now(), amqp091.Publishing{}))
}
