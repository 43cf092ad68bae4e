package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

func TestTopologyPrint(t *testing.T) {
	for _, name := range backend.Names() {
		status, stdout, stderr := command(t.Context(), t, "topology", "print", "--backend", name)
		require.Equal(t, exitOK, status, stderr)
		require.Contains(t, stdout, "delayer.delivery  direct", name)

		status, stdout, stderr = command(t.Context(), t, "topology", "print", "--backend", name, "--format", "definitions",
			"--config", configFile(t, "url: amqp://u:p@h/here\n"))
		require.Equal(t, exitOK, status, stderr)
		var file struct {
			Queues []struct{ Name, Vhost string }
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &file), name)
		require.NotEmpty(t, file.Queues, name)
		require.Equal(t, "here", file.Queues[0].Vhost)
	}
	status, stdout, stderr := command(t.Context(), t, "topology", "print", "--backend", "abacus")
	require.Equal(t, exitFailed, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, `delayer topology print: open backend: invalid configuration: unknown backend "abacus" (known: `)
	status, _, stderr = command(t.Context(), t, "topology", "print", "--format", "xml")
	require.Equal(t, exitUsage, status)
	require.Contains(t, stderr, `--format must be one of "text","definitions"`)
}

// TestTopologyEmpty says when an old configuration can go.
func TestTopologyEmpty(t *testing.T) {
	t.Parallel()
	b, queue := rabbittest.Broker(t), rabbittest.Prefix(t)
	consume(t, channel(t, b.URL()), queue)
	prefix := rabbittest.Prefix(t)
	config := configFile(t, "url: "+b.URL()+"\nprefix: "+prefix+"\nbinaryladder: {steps: [1s, 2s]}\n")
	empty := func() (status int, stdout, stderr string) {
		return command(t.Context(), t, "topology", "empty", "--config", config)
	}
	status, stdout, stderr := empty()
	require.Equal(t, exitOK, status, stderr)
	require.Equal(t, "nothing waits in the queues of this configuration\n", stdout)

	cfg, err := backend.Load(config)
	require.NoError(t, err)
	d, err := backend.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, d.(delayer.TopologyRemover).RemoveTopology(context.Background()))
		require.NoError(t, d.Close())
	}()
	ch := channel(t, b.URL())
	require.NoError(t, ch.PublishWithContext(t.Context(), "", prefix+".unroutable", true, false, amqp091.Publishing{}))
	require.Eventually(t, func() bool {
		status, stdout, stderr = empty()
		return status == exitFailed
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, "       1  "+prefix+".unroutable\n", stdout)
	require.Contains(t, stderr, "delayer topology empty: 1 messages wait in 1 queues")
}

// imported returns a broker of the test's own into which the printed definitions were imported.
func imported(t *testing.T, queueType string) (b *rabbit.Broker, config string) {
	t.Helper()
	b = rabbittest.Own(t, rabbit.Options{Args: rabbit.DeadLetterRetry(2 * time.Second)})
	if b.How() != "private node" {
		rabbittest.Skipf(t, "needs a private node, whose rabbitmqctl reads our files")
	}
	config = configFile(t, fmt.Sprintf("url: %s\nbackend: fixedtiers\nqueue_type: %s\nfixedtiers: {tiers: [500ms, 1h]}\n", b.URL(), queueType))
	status, printed, stderr := command(t.Context(), t, "topology", "print", "--config", config, "--format", "definitions")
	require.Equal(t, exitOK, status, stderr)
	file := filepath.Join(t.TempDir(), "definitions.json")
	require.NoError(t, os.WriteFile(file, []byte(printed), 0o600))
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o755))
	_, err := b.Ctl(t.Context(), "import_definitions", file)
	require.NoError(t, err)
	return b, config
}

// TestTopologyPrint_ImportedAndUsed is how an administrator delays what others publish: definitions are imported, two
// bindings are made, and messages arrive a tier later.
func TestTopologyPrint_ImportedAndUsed(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			b, config := imported(t, queueType)
			ch := channel(t, b.URL())
			require.NoError(t, ch.ExchangeDeclare("orders", "topic", true, false, false, false, nil))
			require.NoError(t, ch.ExchangeDeclare("audit", "direct", true, false, false, false, nil))
			in := consume(t, ch, "work")
			require.NoError(t, ch.QueueBind("work", "order.*", "delay.exchange", false, nil))
			require.NoError(t, ch.ExchangeBind("audit", "lost.#", "delay.exchange", false, nil))
			require.NoError(t, ch.QueueBind("delay.route.500ms.queue", "#", "orders", false, nil))
			publish := func(key, body string) {
				require.NoError(t, ch.PublishWithContext(t.Context(), "orders", key, true, false, amqp091.Publishing{Body: []byte(body)}))
			}
			arrives := func(body string, start time.Time, delay time.Duration) {
				m := <-in
				assert.Equal(t, body, string(m.Body))
				assert.Equal(t, "order.created", m.RoutingKey)
				assert.GreaterOrEqual(t, time.Since(start), delay)
			}

			start := time.Now()
			publish("order.created", "plain")
			arrives("plain", start, 500*time.Millisecond)

			for range 100 { // none may hold up what comes behind it
				publish("lost.message", "routed by no one: audit drops it, as it drops what is published to it")
			}
			publish("nobody's", "bound by no one")
			start = time.Now()
			publish("order.created", "behind them")
			arrives("behind them", start, 500*time.Millisecond)
			misrouted, err := ch.Consume("delayer.misrouted", "", true, false, false, false, nil) // no Delayer has run yet
			require.NoError(t, err)
			require.Equal(t, "bound by no one", string((<-misrouted).Body))

			start = time.Now() // a Delayer finds the same objects, and what it delivers to the exchange goes the same way
			status, _, stderr := command(t.Context(), t, "send", "--config", config, "--exchange", "orders", "--key", "order.created", "--delay", "500ms", "--body", "ours")
			require.Equal(t, exitOK, status, stderr)
			arrives("ours", start, time.Second)
		})
	}
}
