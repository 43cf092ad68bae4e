package delayer_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/delayertest"
)

// inMemory takes any delay.
func inMemory() *delayertest.Delayer {
	return delayertest.New(delayertest.Config{Limits: delayer.Limits{Max: math.MaxInt64}})
}

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
			d := inMemory()
			msg := amqp091.Publishing{MessageId: name}
			require.NoError(t, delayer.PublishAt(t.Context(), d, "x", "k", c.at, msg), name)
			require.Equal(t, []delayer.Message{{Exchange: "x", Key: "k", Delay: c.want, Publishing: msg}}, d.Published(), name)
		}
	})
}

// TestPublishAt_TooFar: a delay that was cut off would be early.
func TestPublishAt_TooFar(t *testing.T) {
	d := inMemory()
	for at, want := range map[time.Time]string{
		{}: `delayer: publish to queue "q": delay out of range: the zero time: set it, or use time.Now() to publish at once`,
		time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC): `delayer: publish to queue "q": delay out of range: 3000-01-01 is more than 292 years away`,
	} {
		err := delayer.PublishAt(t.Context(), d, "", "q", at, amqp091.Publishing{})
		require.ErrorIs(t, err, delayer.ErrOutOfRange)
		require.EqualError(t, err, want)
		require.True(t, delayer.SafeToRetry(err))
	}
	err := delayer.PublishAt(t.Context(), d, "x", "k", time.Time{}, amqp091.Publishing{})
	require.ErrorContains(t, err, `to exchange "x" with key "k"`)
	require.Empty(t, d.Published())

	d.FailNext(delayer.ErrUnroutable)
	err = delayer.PublishAt(t.Context(), d, "x", "k", time.Now(), amqp091.Publishing{})
	require.EqualError(t, err, `delayer: publish delayertest to exchange "x" with key "k": unroutable`)
}
