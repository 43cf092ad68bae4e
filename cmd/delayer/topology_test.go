package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
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
	status, stdout, stderr := command(t.Context(), t, "topology", "print", "--backend", "abacus")
	require.Equal(t, exitFailed, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, `delayer topology print: open backend: invalid configuration: unknown backend "abacus" (known: `)
	status, _, stderr = command(t.Context(), t, "topology", "print", "--output", "xml")
	require.Equal(t, exitUsage, status)
	require.Contains(t, stderr, `--output must be one of "text","definitions","kubernetes"`)
}

// TestTopologyPrint_Kubernetes: what the resources hold is tested in package topologycmd.
func TestTopologyPrint_Kubernetes(t *testing.T) {
	status, stdout, stderr := command(t.Context(), t, "topology", "print", "--output", "kubernetes", "--cluster", "rabbit", "--namespace", "messaging",
		"--config", configFile(t, "url: amqp://u:p@h/here\n"))
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "kind: Queue\nmetadata:\n    name: delayer.unroutable\n    namespace: messaging\nspec:\n    name: delayer.unroutable\n    vhost: here\n")
	for args, says := range map[string]string{
		"--output kubernetes": "--output kubernetes needs --cluster",
		"--cluster rabbit":    "--cluster and --namespace need --output kubernetes",
	} {
		status, _, stderr := command(t.Context(), t, append([]string{"topology", "print"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, status)
		require.Contains(t, stderr, says)
	}
}

// TestTopologyVerify_NoAPI: bindings and policies cannot be seen over AMQP.
func TestTopologyVerify_NoAPI(t *testing.T) {
	status, _, stderr := command(t.Context(), t, "topology", "verify", "--url", "amqp://u:hunter2@127.0.0.1:1/")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "delayer topology verify: open management: invalid configuration: not given")
	status, _, stderr = command(t.Context(), t, "topology", "verify", "--url", "amqp://u:hunter2@127.0.0.1:1/", "--management", "http://u:hunter2@127.0.0.1:1")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "is the management plugin enabled")
	require.NotContains(t, stderr, "hunter2")
}

// imported makes a virtual host into which the printed definitions were imported.
func imported(t *testing.T, b *rabbit.Broker, queueType string) (address, config string) {
	t.Helper()
	address = vhost(t, b)
	config = configFile(t, fmt.Sprintf("url: %s\nbackend: fixedtiers\nqueue_type: %s\nfixedtiers: {tiers: [500ms, 1h]}\n", address, queueType))
	status, printed, stderr := command(t.Context(), t, "topology", "print", "--config", config, "--output", "definitions")
	require.Equal(t, exitOK, status, stderr)
	file := filepath.Join(t.TempDir(), "definitions.json")
	require.NoError(t, os.WriteFile(file, []byte(printed), 0o600))
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o755))
	_, err := b.Ctl(t.Context(), "import_definitions", file)
	require.NoError(t, err)
	return address, config
}

// TestTopologyPrint_ImportedAndUsed is how an administrator delays what others publish: definitions
// are imported, two bindings are made, and messages arrive a tier later.
func TestTopologyPrint_ImportedAndUsed(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	if b.How() != "private node" {
		rabbittest.Skipf(t, "needs a private node, whose rabbitmqctl reads our files")
	}
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			address, config := imported(t, b, queueType)
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
			status, _, stderr := command(t.Context(), t, "send", "--config", config, "--exchange", "orders", "--key", "order.created", "--delay", "500ms", "--body", "ours")
			require.Equal(t, exitOK, status, stderr)
			arrives("ours", start, time.Second)
		})
	}
}

// TestTopologyRemove_InUse: the queues of a process that runs are deleted only if that is said
// twice.
func TestTopologyRemove_InUse(t *testing.T) {
	t.Parallel()
	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	queue := prefix + "-queue"
	consume(t, channel(t, url), queue)
	config := configFile(t, "url: "+url+"\nprefix: "+prefix+"\nbackend: fixedtiers\nfixedtiers: {tiers: [1h]}\n")
	cfg, err := backend.Load(config)
	require.NoError(t, err)
	d := rabbittest.Open(t, cfg)
	for range 3 {
		require.NoError(t, d.Publish(t.Context(), "", queue, time.Hour, amqp091.Publishing{}))
	}
	remove := func(args ...string) (int, string, string) {
		return command(t.Context(), t, append([]string{"topology", "remove", "--config", config, "--prefix", prefix}, args...)...)
	}
	status, stdout, stderr := remove("--force")
	require.Equal(t, exitFailed, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "is in use: messages: 3, in "+prefix+".delay.1h.queue (3); a Delayer or a controller consumes "+prefix+".misrouted (")
	require.NoError(t, d.Publish(t.Context(), "", queue, time.Hour, amqp091.Publishing{}), "nothing was deleted")
	status, stdout, stderr = remove("--force", "--force")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "are deleted, with 4 messages\n")
}
