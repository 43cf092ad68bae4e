package backend_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/delivery"
)

// documented makes a user with the permissions that docs/operating.md gives that role, and returns
// its URL.
func documented(t *testing.T, b *rabbit.Broker, role, prefix, destination string) string {
	t.Helper()
	return rabbittest.Documented(t, b, b.URL(), "../../../..", role, "delayer", prefix, "orders", destination)
}

// importInto imports what the configuration prints, as an administrator does.
func importInto(t *testing.T, b *rabbit.Broker, cfg backend.Config) {
	t.Helper()
	if b.How() != "private node" {
		rabbittest.Skipf(t, "needs a private node, whose rabbitmqctl reads our files")
	}
	file := filepath.Join(t.TempDir(), "definitions.json")
	out, err := os.Create(file)
	require.NoError(t, err)
	plan, err := backend.Topology(cfg)
	require.NoError(t, err)
	require.NoError(t, plan.WriteDefinitions(out, "/"))
	require.NoError(t, out.Close())
	_, err = b.Ctl(within(t), "import_definitions", file)
	require.NoError(t, err)
}

// requireNoWarning: but those who may not declare cannot know the feature flags of 3.10.
func requireNoWarning(t *testing.T, log *rabbittest.Logbook) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		require.True(t, !strings.Contains(line, "level=WARN") || strings.Contains(line, "list_feature_flags"), line)
	}
}

// TestOpen_Limits: an error tells what is needed, what is granted, and what to set.
func TestOpen_Limits(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	for name, c := range map[string]struct{ backend, query, limits, want string }{
		"channel_max":     {"binaryladder", "channel_max=15", "", "it needs 16 channels, and may have 15: channel_max is too low"},
		"of a controller": {"controller", "channel_max=56", "", "it needs 57 channels, and may have 56: channel_max"},
		"heartbeat":       {"controller", "heartbeat=2", "", "its heartbeat is 2s, and must be 3s or longer: heartbeat is too short"},
		"channels":        {"binaryladder", "", `{"max-channels":1}`, "the maximum allowed user limit of "}, // the broker counts late
		"connections":     {"binaryladder", "", `{"max-connections":1}`, "user connection limit (1) is reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			at := mustParse(t, rabbittest.User(t, b, b.URL(), ".*", ".*", ".*"))
			if c.limits != "" {
				_, err := b.Ctl(within(t), "set_user_limits", at.User.Username(), c.limits)
				require.NoError(t, err)
			}
			at.RawQuery = c.query
			cfg.Backend, cfg.URL = c.backend, at.String()
			cfg.Controller.PublishOnly = false
			_, err := backend.Open(within(t), cfg)
			require.ErrorIs(t, err, delayer.ErrUnavailable)
			require.ErrorContains(t, err, c.want)
			require.Contains(t, err.Error(), map[bool]string{true: "in rabbitmq.conf", false: "(raise that limit, "}[c.limits == ""])
		})
	}
}

// TestPermissions_Documented are enough for each role, with a log that complains of nothing.
func TestPermissions_Documented(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	ch := channel(t)
	arrives := func(t *testing.T, cfg backend.Config, queue string, in <-chan amqp091.Delivery) (last amqp091.Delivery) {
		t.Helper()
		d, err := backend.Open(within(t), cfg)
		require.NoError(t, err)
		defer d.Close() //nolint:errcheck // the test's end
		require.NoError(t, d.Publish(within(t), "", queue, 300*time.Millisecond, amqp091.Publishing{}))
		<-in
		exchange := queue // the permissions are for one name
		require.NoError(t, ch.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
		t.Cleanup(func() { _ = ch.ExchangeDelete(exchange, false, false) })
		require.NoError(t, ch.QueueBind(queue, "", exchange, false, nil))
		msg := amqp091.Publishing{UserId: mustParse(t, cfg.URL).User.Username()}
		require.NoError(t, d.Publish(within(t), exchange, "order.expired", 300*time.Millisecond, msg))
		last = <-in
		require.Equal(t, "order.expired", last.RoutingKey)
		return last
	}
	t.Run("declare", func(t *testing.T) {
		var log rabbittest.Logbook
		cfg, queue := config(t), rabbittest.Prefix(t)
		in := consume(t, ch, queue)
		cfg.URL, cfg.Logger = documented(t, b, "deploy", cfg.Prefix, queue), log.Logger()
		arrives(t, cfg, queue, in)
		requireNoWarning(t, &log)
		rabbittest.Open(t, cfg) // which removes the topology
	})
	t.Run("publish", func(t *testing.T) {
		var log rabbittest.Logbook
		cfg, queue := config(t), rabbittest.Prefix(t)
		in := consume(t, ch, queue)
		cfg.Passive, cfg.Logger = true, log.Logger()
		importInto(t, b, cfg)
		admin := cfg.URL
		cfg.URL = documented(t, b, "publish", cfg.Prefix, queue)
		arrives(t, cfg, queue, in)
		requireNoWarning(t, &log)
		cfg.URL = admin
		rabbittest.Open(t, cfg) // which removes the topology
	})
	for name, wheel := range map[string]controller.Config{
		"control":        {Wheel: controller.Rounds, Levels: 3, Tick: 100 * time.Millisecond, PublishOnly: true},
		"control, slots": {Wheel: controller.Slots, PublishOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			var log rabbittest.Logbook
			cfg, queue := config(t), rabbittest.Prefix(t)
			in := consume(t, ch, queue)
			cfg.Backend, cfg.Passive, cfg.Logger = "controller", true, log.Logger()
			cfg.Controller = wheel
			importInto(t, b, cfg)
			defer rabbittest.Open(t, cfg) // which removes the topology
			publisher, controlled := cfg, cfg
			publisher.URL = documented(t, b, "publish", cfg.Prefix, queue)
			controlled.URL = documented(t, b, "control", cfg.Prefix, queue)
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() { served <- controller.Serve(ctx, controlled.Options, controlled.Controller) }()
			m := arrives(t, publisher, queue, in)
			require.Empty(t, m.UserId, "the broker would not take it from another user")
			stop()
			require.NoError(t, <-served)
			requireNoWarning(t, &log)
		})
	}
}

// TestOpen_ImportedTopology: the error names what is missing, and nothing is declared.
func TestOpen_ImportedTopology(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Passive = true
	_, err := backend.Open(within(t), cfg)
	require.ErrorIs(t, err, delayer.ErrNotFound)
	require.ErrorContains(t, err, `with passive: true there must be exchange "`+cfg.Prefix+`.ladder"`)
	require.ErrorContains(t, err, "delayer topology print --output definitions")
	_, again := backend.Open(within(t), cfg)
	require.Equal(t, err.Error(), again.Error())

	cfg.Passive = false
	rabbittest.Open(t, cfg)
	cfg.Passive = true
	d := rabbittest.Open(t, cfg)
	err = d.Publish(within(t), "", strings.Repeat("a.", 8)+"a", time.Second, amqp091.Publishing{})
	require.ErrorIs(t, err, delayer.ErrInvalid)
	require.ErrorContains(t, err, "9 words; with passive: true it may have eight")
}

// TestErrors_NoPassword in the errors and the log of a Delayer that cannot be opened, or loses its
// broker.
func TestErrors_NoPassword(t *testing.T) {
	t.Parallel()
	var log rabbittest.Logbook
	const secret = "p%40ss%3Aw%2Frd%3F%26%25%2C%23"
	good := mustParse(t, rabbittest.Broker(t).URL())
	for name, at := range map[string]string{
		"credentials": "amqp://guest:" + secret + "@" + good.Host + "/",
		"port":        "amqp://guest:" + secret + "@127.0.0.1:1/",
		"none of two": "amqp://guest:" + secret + "@127.0.0.1:1/,amqp://guest:" + secret + "@127.0.0.1:2/",
		"no TLS":      "amqps://guest:" + secret + "@" + good.Host + "/",
		"query":       "amqp://guest:" + secret + "@127.0.0.1/?heartbeat=x",
	} {
		t.Run(name, func(t *testing.T) {
			names := backend.Names()
			if name == "credentials" {
				names = names[:1] // the broker takes three seconds to say no
			}
			for _, b := range names {
				_, err := backend.Open(within(t), backend.Config{Options: delayer.Options{URL: at, Logger: log.Logger(), Management: "http://u:p%40ss@127.0.0.1:1"}, Backend: b})
				require.Error(t, err)
				for _, text := range []string{err.Error(), log.String()} {
					require.NotContains(t, text, "ss:w")
					require.NotContains(t, text, "p%40ss")
					require.NotContains(t, text, "p@ss")
				}
			}
		})
	}
}

// TestPermissions_Destinations: the documented limit of permissions, and the boundary that prefixes
// are.
func TestPermissions_Destinations(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	cfg, queue := config(t), rabbittest.Prefix(t)
	ch := channel(t)
	in := consume(t, ch, queue)
	d := rabbittest.Open(t, cfg)
	require.NoError(t, d.Publish(within(t), "", queue, 100*time.Millisecond, amqp091.Publishing{Body: []byte("ours")}))
	require.Equal(t, "ours", string((<-in).Body))

	// A user that may write to our entry exchange and to nothing else reaches the queue.
	conn, err := amqp091.Dial(rabbittest.User(t, b, b.URL(), "^$", "^"+cfg.Prefix+`\.ladder\.enter$`, "^$"))
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the test's end
	outsider, err := conn.Channel()
	require.NoError(t, err)
	to := delivery.Key("", queue, 1)
	require.NoError(t, outsider.PublishWithContext(within(t), cfg.Prefix+".ladder.enter", "any", true, false, amqp091.Publishing{
		Headers: amqp091.Table{"BCC": []any{"~d:>100ms", "~d:100ms>end", to}}, Body: []byte("theirs"),
	}))
	require.Equal(t, "theirs", string((<-in).Body))

	// One with a prefix of its own does not: it cannot bind the queue, and not publish into this
	// prefix.
	mine := config(t)
	own := "^" + mine.Prefix + "[.:]"
	mine.URL = rabbittest.User(t, b, b.URL(), own, own, own)
	other, err := backend.Open(within(t), mine)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, other.Close())
		rabbittest.Remove(t, mine)
	}()
	for _, at := range []struct{ exchange, key string }{{"", queue}, {cfg.Prefix + ".ladder.enter", "x"}, {cfg.Prefix + ".delivery", to}} {
		err := other.Publish(within(t), at.exchange, at.key, 100*time.Millisecond, amqp091.Publishing{})
		require.Error(t, err, at)
		require.True(t, delayer.SafeToRetry(err))
	}
	require.NoError(t, d.Publish(within(t), "", queue, 100*time.Millisecond, amqp091.Publishing{Body: []byte("last")}))
	require.Equal(t, "last", string((<-in).Body))
}
