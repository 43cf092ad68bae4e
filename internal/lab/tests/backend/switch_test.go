package backend_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestLoad_BackendSwitchedByOneLine runs one program with one file, of which nothing but the
// backend's line changes.
func TestLoad_BackendSwitchedByOneLine(t *testing.T) {
	t.Parallel()
	for _, example := range []string{"../../../../backend/testdata/delayer.yaml", "../../../../backend/testdata/delayer.json"} {
		text, err := os.ReadFile(example)
		require.NoError(t, err)
		prefix := rabbittest.Prefix(t)
		file := strings.NewReplacer( // the test's broker, names of its own, delays that a test can wait for, and few queues
			"amqp://guest:guest@localhost:5672/", rabbittest.Broker(t).URL(),
			"prefix: delayer", "prefix: "+prefix, `"prefix": "delayer"`, `"prefix": "`+prefix+`"`,
			"prefix: delay ", "prefix: "+prefix+".tiers ", `"prefix": "delay"`, `"prefix": "`+prefix+`.tiers"`,
			"tick: 1s", "tick: 100ms", `"tick": "1s"`, `"tick": "100ms"`,
			"[1m,", "[300ms,", `["1m",`, `["300ms",`,
			"steps: calendar", "steps: [100ms, 200ms, 400ms]", `"steps": "calendar"`, `"steps": ["100ms", "200ms", "400ms"]`,
			"levels: 20", "levels: 4", `"levels": 20`, `"levels": 4`,
		).Replace(string(text))
		for _, name := range backend.Names() {
			t.Run(filepath.Ext(example)+"/"+name, func(t *testing.T) {
				if name == "plugin" {
					rabbittest.NeedPlugin(t, rabbittest.DelayedMessages)
				}
				path := filepath.Join(t.TempDir(), filepath.Base(example))
				line := strings.NewReplacer("backend: binaryladder ", "backend: "+name+" ", `"backend": "binaryladder"`, `"backend": "`+name+`"`).Replace(file)
				require.NoError(t, os.WriteFile(path, []byte(line), 0o600))
				program(t, path)
			})
		}
	}
}

// program knows nothing of backends.
func program(t *testing.T, config string) {
	cfg, err := backend.Load(config)
	require.NoError(t, err)
	cfg.Logger = silent
	d, exchange, queue := rabbittest.Open(t, cfg), rabbittest.Prefix(t), rabbittest.Prefix(t)
	ch := channel(t)
	in := consume(t, ch, queue)
	require.NoError(t, ch.ExchangeDeclare(exchange, "topic", false, false, false, false, nil))
	t.Cleanup(func() { _ = ch.ExchangeDelete(exchange, false, false) })
	require.NoError(t, ch.QueueBind(queue, "order.*", exchange, false, nil))

	const delay = 300 * time.Millisecond
	due := time.Now().Add(delay)
	require.NoError(t, d.Publish(within(t), exchange, "order.expired", delay, amqp091.Publishing{Headers: amqp091.Table{"h": "v"}, Body: []byte("order 42")}))
	m := <-in
	require.False(t, time.Now().Before(due), "early")
	require.Equal(t, "order 42", string(m.Body))
	require.Equal(t, "order.expired", m.RoutingKey)
	require.Equal(t, "v", m.Headers["h"])
	require.ErrorIs(t, d.Publish(within(t), exchange+"-none", "k", delay, amqp091.Publishing{}), delayer.ErrUnroutable)
}
