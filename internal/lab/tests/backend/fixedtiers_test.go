package backend_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func tiers(t testing.TB, queueType delayer.QueueType, f fixedtiers.Config) backend.Config {
	return backend.Config{
		Options:    delayer.Options{URL: rabbittest.Broker(t).URL(), Prefix: rabbittest.Prefix(t), Logger: silent, QueueType: queueType},
		Backend:    "fixedtiers",
		FixedTiers: f,
	}
}

// TestFixedTiers_FullTier: nothing that was confirmed is lost, nothing is early, and the rest is an
// error that asks whether a queue is full.
func TestFixedTiers_FullTier(t *testing.T) {
	t.Parallel()
	for _, queueType := range []delayer.QueueType{delayer.Quorum, delayer.Classic} {
		t.Run(string(queueType), func(t *testing.T) {
			const delay = 2 * time.Second
			cfg := tiers(t, queueType, fixedtiers.Config{Tiers: []time.Duration{delay, time.Hour}, MaxLength: 10})
			d, queue := rabbittest.Open(t, cfg), rabbittest.Prefix(t)
			in := consume(t, channel(t), queue)
			var due []time.Time
			var err error
			for err == nil {
				require.Less(t, len(due), 1000, "never full")
				at := time.Now().Add(delay)
				if err = d.Publish(within(t), "", queue, delay-time.Second, amqp091.Publishing{Body: fmt.Append(nil, len(due))}); err == nil {
					due = append(due, at)
				}
			}
			require.GreaterOrEqual(t, len(due), 10)
			require.ErrorIs(t, err, delayer.ErrRefused)
			require.Equal(t, queueType == delayer.Quorum, delayer.SafeToRetry(err), "a classic queue whose process has died may have it: %v", err)
			hint := map[delayer.QueueType]string{delayer.Quorum: "is the waiting queue full (max_length), ", delayer.Classic: "is a queue full, "}
			require.ErrorContains(t, err, "nack")
			require.ErrorContains(t, err, hint[queueType])
			require.ErrorContains(t, err, `to queue "`+queue+`"`)
			require.NoError(t, d.Publish(within(t), "", queue, time.Hour, amqp091.Publishing{}), "the other tier is not full")
			for i, at := range due {
				m := <-in
				require.Equal(t, fmt.Sprint(i), string(m.Body))
				require.False(t, time.Now().Before(at), "message %d was early", i)
			}
			// A quorum queue counts a message until the broker has confirmed where it went.
			require.Eventually(t, func() bool {
				err = d.Publish(within(t), "", queue, delay, amqp091.Publishing{Body: []byte("room again")})
				return !errors.Is(err, delayer.ErrRefused)
			}, time.Minute, 10*time.Millisecond)
			require.NoError(t, err)
			require.Equal(t, "room again", string((<-in).Body))
		})
	}
}
