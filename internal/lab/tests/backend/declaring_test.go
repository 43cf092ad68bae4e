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

// replace is what a stranger does: he deletes the queue of a step, and declares it with a TTL that
// makes messages early. All else is as it was, so that nothing is missing and nothing is returned.
func replace(t *testing.T, ch *amqp091.Channel, prefix, step string) {
	t.Helper()
	queue := prefix + ".ladder.wait." + step
	_, err := ch.QueueDelete(queue, false, false, false)
	require.NoError(t, err)
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp091.Table{
		"x-message-ttl": int64(50), "x-dead-letter-exchange": prefix + ".ladder.step." + step,
	})
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(queue, "~d:>"+step, prefix+".ladder.enter", false, nil))
}

// TestPublish_StrangersObject: an exchange or a queue of ours that is somebody else's by now.
// Nothing is missing, no message is returned, and no management API tells. The next look finds it.
func TestPublish_StrangersObject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object  string
		replace func(t *testing.T, ch *amqp091.Channel, prefix string)
	}{
		"another TTL": {"ladder.wait.800ms", func(t *testing.T, ch *amqp091.Channel, prefix string) {
			replace(t, ch, prefix, "800ms")
		}},
		"another type": {"ladder.step.800ms", func(t *testing.T, ch *amqp091.Channel, prefix string) {
			x := prefix + ".ladder.step.800ms"
			require.NoError(t, ch.ExchangeDelete(x, false, false))
			require.NoError(t, ch.ExchangeDeclare(x, "fanout", true, false, false, false, nil))
		}},
		"no alternate exchange": {"delivery", func(t *testing.T, ch *amqp091.Channel, prefix string) {
			x := prefix + ".delivery"
			require.NoError(t, ch.ExchangeDelete(x, false, false))
			require.NoError(t, ch.ExchangeDeclare(x, "direct", true, false, false, false, nil))
		}},
	} {
		t.Run(name, func(t *testing.T) {
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
			prefix := cfg.Prefix
			ch, queue := channel(t), rabbittest.Prefix(t)
			in := consume(t, ch, queue)
			const delay = 800 * time.Millisecond // one step
			publish := func(body string) error {
				return d.Publish(within(t), "", queue, delay, amqp091.Publishing{Body: []byte(body)})
			}
			next := func(body string) {
				t.Helper()
				for { // what was accepted before the look may still come
					if got := string(rabbittest.Next(t, in).Body); got != "before" {
						require.Equal(t, body, got)
						return
					}
				}
			}
			require.NoError(t, publish("before"), "which declares the bindings of its route")
			test.replace(t, ch, prefix)

			const most = 1200 // a minute: a look is due after 100 to 150 ms, and a message takes lookEvery
			look, accepted := time.Tick(lookEvery), 0
			for ; ; accepted++ {
				err := publish("before")
				if err != nil {
					require.ErrorIs(t, err, delayer.ErrConflict)
					require.ErrorContains(t, err, prefix+"."+test.object)
					break
				}
				if accepted == most {
					began := time.Now()
					require.NoError(t, publish("last"))
					next("last")
					require.FailNow(t, "no look has found it", "%d messages were accepted; the last came after %v of %v", accepted, time.Since(began), delay)
				}
				<-look
			}
			t.Logf("%d messages were accepted before the look", accepted)
			for range 10 {
				<-look
				require.ErrorIs(t, publish("refused"), delayer.ErrConflict, "also after the next looks")
			}
			require.NoError(t, d.Publish(within(t), "", queue, 0, amqp091.Publishing{Body: []byte("now")}), "which needs none of them")
			next("now")

			object := prefix + "." + test.object
			_, _ = ch.QueueDelete(object, false, false, false) // a name of both is the other's
			require.NoError(t, ch.ExchangeDelete(object, false, false))
			var began time.Time
			for ctx := within(t); ; <-look {
				began = time.Now()
				err := publish("after")
				if err == nil {
					break
				}
				require.ErrorIs(t, err, delayer.ErrConflict)
				require.NoError(t, ctx.Err())
			}
			next("after")
			require.GreaterOrEqual(t, time.Since(began), delay)
			require.Equal(t, 1, strings.Count(log.String(), "has other arguments"))
		})
	}
}
