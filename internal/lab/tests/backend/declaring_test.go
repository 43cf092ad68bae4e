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

// TestDelayer_DeclaringFails again and again, while nobody publishes: neither the broker nor the log is
// kept busy.
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
			replace(t, vhostChannel(t, b, vhost), prefix+".ladder.wait.400ms")
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

// replace is what a stranger does: he deletes a queue, and declares it with another TTL.
func replace(t *testing.T, ch *amqp091.Channel, queue string) {
	t.Helper()
	_, err := ch.QueueDelete(queue, false, false, false)
	require.NoError(t, err)
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-message-ttl": int64(50)})
	require.NoError(t, err)
}

// TestPublish_StrangersObject: an exchange or a queue of ours that is somebody else's by now. Nothing
// is missing, and no management API tells.
func TestPublish_StrangersObject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object  string
		replace func(t *testing.T, ch *amqp091.Channel, name string)
	}{
		"another TTL": {"ladder.wait.400ms", replace},
		"another type": {"ladder.step.400ms", func(t *testing.T, ch *amqp091.Channel, name string) {
			require.NoError(t, ch.ExchangeDelete(name, false, false))
			require.NoError(t, ch.ExchangeDeclare(name, "fanout", true, false, false, false, nil))
		}},
		"no alternate exchange": {"delivery", func(t *testing.T, ch *amqp091.Channel, name string) {
			require.NoError(t, ch.ExchangeDelete(name, false, false))
			require.NoError(t, ch.ExchangeDeclare(name, "direct", true, false, false, false, nil))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log rabbittest.Logbook
			d, prefix := watched(t, log.Logger())
			ch, queue := channel(t), rabbittest.Prefix(t)
			in := consume(t, ch, queue)
			object := prefix + "." + test.object
			test.replace(t, ch, object)
			const delay = 600 * time.Millisecond // through the queue of 400 ms
			publish := func() error { return d.Publish(within(t), "", queue, delay, amqp091.Publishing{}) }
			for ctx, look := within(t), time.Tick(lookEvery); !strings.Contains(log.String(), "has other arguments"); <-look {
				require.NoError(t, ctx.Err())
			}
			err := publish()
			require.ErrorIs(t, err, delayer.ErrConflict)
			require.ErrorContains(t, err, object)
			require.NoError(t, d.Publish(within(t), "", queue, 0, amqp091.Publishing{Body: []byte("now")}), "which needs none of them")
			require.Equal(t, "now", string(rabbittest.Next(t, in).Body))

			_, _ = ch.QueueDelete(object, false, false, false) // a name of both is the other's
			require.NoError(t, ch.ExchangeDelete(object, false, false))
			for ctx, look := within(t), time.Tick(lookEvery); ; <-look {
				if err = publish(); err == nil {
					break
				}
				require.ErrorIs(t, err, delayer.ErrConflict)
				require.NoError(t, ctx.Err())
			}
			began := time.Now()
			require.NoError(t, publish())
			rabbittest.Next(t, in)
			rabbittest.Next(t, in)
			require.GreaterOrEqual(t, time.Since(began), delay)
			require.Equal(t, 1, strings.Count(log.String(), "has other arguments"))
		})
	}
}
