package backend_test

import (
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// TestDelayer_DeclaringFails again and again, while nobody publishes: neither the broker nor the
// log is kept busy.
func TestDelayer_DeclaringFails(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	for name, test := range map[string]struct {
		user bool // of the test's own, of the vhost's name
		fail func(t *testing.T, prefix, vhost string)
	}{
		"vhost deleted": {fail: func(t *testing.T, _, vhost string) {
			_, err := b.Ctl(within(t), "delete_vhost", vhost)
			require.NoError(t, err)
		}},
		"permission revoked": {user: true, fail: func(t *testing.T, prefix, vhost string) {
			_, err := b.Ctl(within(t), "set_permissions", "--vhost", vhost, vhost, "^$", ".*", ".*")
			require.NoError(t, err)
			require.NoError(t, rabbittest.Cut(within(t), b, "delayer "+prefix+" publish"))
		}},
		"other arguments": {fail: func(t *testing.T, prefix, vhost string) {
			replace(t, vhostChannel(t, b, vhost), prefix, "400ms")
			require.NoError(t, rabbittest.Cut(within(t), b, "delayer "+prefix+" publish"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log rabbittest.Logbook
			var failed atomic.Int64
			cfg, vhost := config(t), rabbittest.Prefix(t)
			u, err := url.Parse(b.URL())
			require.NoError(t, err)
			ctl := func(args ...string) {
				t.Helper()
				_, err := b.Ctl(within(t), args...)
				require.NoError(t, err)
			}
			ctl("add_vhost", vhost)
			t.Cleanup(func() { _, _ = b.Ctl(within(t), "delete_vhost", vhost) })
			ctl("set_permissions", "--vhost", vhost, u.User.Username(), ".*", ".*", ".*")
			if test.user {
				ctl("add_user", vhost, vhost)
				t.Cleanup(func() { ctl("delete_user", vhost) })
				ctl("set_permissions", "--vhost", vhost, vhost, ".*", ".*", ".*")
				u.User = url.UserPassword(vhost, vhost)
			}
			u.Path = "/" + vhost
			cfg.URL, cfg.Logger, cfg.QueueType = u.String(), log.Logger(), delayer.Classic
			began := make(chan struct{}, 1<<20)
			cfg.Observer.Redeclared = func(e delayer.RedeclareEvent) {
				if e.Err != nil {
					failed.Add(1)
					began <- struct{}{}
				}
			}
			d, err := backend.Open(engine.WithWatchEvery(within(t), 100*time.Millisecond), cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			lines := strings.Count(log.String(), "\n")
			test.fail(t, cfg.Prefix, vhost)
			if name != "vhost deleted" { // where nothing can be asked either
				rabbittest.Next(t, began)
			}
			const during, most = 4 * time.Second, 10 // after 1, 2 and 4 s, less up to half, and again when it is reconnected
			<-time.After(during)
			lines = strings.Count(log.String(), "\n") - lines
			t.Logf("%d attempts to declare and %d lines in %v", failed.Load(), lines, during)
			require.LessOrEqual(t, failed.Load(), int64(most))
			require.LessOrEqual(t, lines, 10)
		})
	}
}

func vhostChannel(t *testing.T, b *rabbit.Broker, vhost string) *amqp091.Channel {
	t.Helper()
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	u.Path = "/" + vhost
	return rabbittest.NewRigAt(t, b, u.String()).Ch
}

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
			d, prefix := watched(t, log.Logger())
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
