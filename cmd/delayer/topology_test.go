package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestTopologyPrint(t *testing.T) {
	for _, name := range backend.Names() {
		status, stdout, stderr := command(t.Context(), t, "topology", "print", "--backend", name)
		require.Equal(t, exitOK, status, stderr)
		require.Contains(t, stdout, "delayer.delivery  direct", name)

		status, stdout, stderr = command(t.Context(), t, "topology", "print", "--backend", name, "--output", "definitions",
			"--config", configFile(t, "url: amqp://u:p@h/here\n"))
		require.Equal(t, exitOK, status, stderr)
		var file struct {
			Queues []struct{ Name, Vhost string }
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &file), name)
		require.NotEmpty(t, file.Queues, name)
		require.Equal(t, "here", file.Queues[0].Vhost)
	}
}

// TestTopologyPrint_ImportedAndUsed is how an administrator delays what others publish: definitions
// are imported, two bindings are made, and messages arrive a tier later.
func TestTopologyPrint_ImportedAndUsed(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	if b.How() != "private node" {
		rabbittest.Skipf(t, "needs a private node, whose rabbitmqctl reads our files")
	}
	address := vhost(t, b)
	config := configFile(t, fmt.Sprintf("url: %s\nbackend: fixedtiers\nfixedtiers: {tiers: [500ms, 1h]}\n", address))
	status, printed, stderr := command(t.Context(), t, "topology", "print", "--config", config, "--output", "definitions")
	require.Equal(t, exitOK, status, stderr)
	file := filepath.Join(t.TempDir(), "definitions.json")
	require.NoError(t, os.WriteFile(file, []byte(printed), 0o600))
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o755))
	_, err := b.Ctl(t.Context(), "import_definitions", file)
	require.NoError(t, err)

	ch := channel(t, address)
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
	look := channel(t, address)
	misrouted, err := look.Consume("delayer.misrouted", "", true, false, false, false, nil) // no Delayer has run yet
	require.NoError(t, err)
	require.Equal(t, "bound by no one", string((<-misrouted).Body))
	require.NoError(t, look.Close())

	start = time.Now() // a Delayer finds the same objects, and what it delivers to the exchange goes the same way
	status, _, stderr = command(t.Context(), t, "send", "--config", config, "--exchange", "orders", "--key", "order.created", "--delay", "500ms", "--body", "ours")
	require.Equal(t, exitOK, status, stderr)
	arrives("ours", start, time.Second)
}

// TestTopologyRemove_OtherBackends: what other backends have under the prefix stays, and is named.
func TestTopologyRemove_OtherBackends(t *testing.T) {
	t.Parallel()
	config := configFile(t, "url: "+vhost(t, rabbittest.Broker(t))+"\nbinaryladder: {steps: [1s, 2s]}\n")
	run := func(args ...string) string {
		status, stdout, stderr := command(t.Context(), t, append([]string{"topology"}, append(args, "--config", config)...)...)
		require.Equal(t, exitOK, status, stderr)
		return stdout
	}
	run("apply")
	run("apply", "--backend", "fixedtiers")
	require.Equal(t, "prefix delayer: the exchanges and queues of backend binaryladder are deleted\n"+
		"those of backend fixedtiers are still there: delayer topology remove --prefix delayer --backend fixedtiers\n", run("remove"))
	require.Equal(t, "prefix delayer: the exchanges and queues of backend fixedtiers are deleted\n",
		run("remove", "--prefix", "delayer", "--backend", "fixedtiers"))
}
