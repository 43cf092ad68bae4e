package backend_test

import (
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// lookEvery is how often a test looks for what must happen: without a pause the broker would be
// busy with answers.
const lookEvery = 50 * time.Millisecond

// TestPublish_StrangersObject: a queue of ours that is somebody else's by now, with a TTL that makes
// messages early. Nothing is missing, no message is returned, and no management API tells. The next
// look finds it.
func TestPublish_StrangersObject(t *testing.T) {
	t.Parallel()
	var log rabbittest.Logbook
	cfg := config(t)
	cfg.QueueType, cfg.Logger = delayer.Classic, log.Logger()
	d, err := backend.Open(engine.WithWatchEvery(within(t), 100*time.Millisecond), cfg)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, d.Close())
		rabbittest.Remove(t, cfg)
	}()
	ch, queue := channel(t), rabbittest.Prefix(t)
	in := consume(t, ch, queue)
	const step, delay = "800ms", 800 * time.Millisecond
	publish := func(body string) error {
		return d.Publish(within(t), "", queue, delay, amqp091.Publishing{Body: []byte(body)})
	}
	require.NoError(t, publish("before"), "which declares the bindings of its route")

	object := cfg.Prefix + ".ladder.wait." + step
	_, err = ch.QueueDelete(object, false, false, false)
	require.NoError(t, err)
	_, err = ch.QueueDeclare(object, true, false, false, false, amqp091.Table{
		"x-message-ttl": int64(50), "x-dead-letter-exchange": cfg.Prefix + ".ladder.step." + step,
	})
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(object, "~d:>"+step, cfg.Prefix+".ladder.enter", false, nil))

	refused := func() bool { return publish("before") != nil }
	require.Eventually(t, refused, time.Minute, lookEvery, "no look has found it")
	for range 10 {
		time.Sleep(lookEvery)
		err = publish("refused")
		require.ErrorIs(t, err, delayer.ErrConflict, "also after the next looks")
		require.ErrorContains(t, err, object)
	}
	require.NoError(t, d.Publish(within(t), "", queue, 0, amqp091.Publishing{}), "which needs none of them")

	_, err = ch.QueueDelete(object, false, false, false)
	require.NoError(t, err)
	var began time.Time
	require.Eventually(t, func() bool {
		began = time.Now()
		return publish("after") == nil
	}, time.Minute, lookEvery)
	for string(rabbittest.Next(t, in).Body) != "after" { // what was accepted before the look comes too
	}
	require.GreaterOrEqual(t, time.Since(began), delay)
	require.Equal(t, 1, strings.Count(log.String(), "has other arguments"))
}
