// Package example_test runs the examples of the documentation on a real broker. It makes a program of
// their source, because a package that is imported must not start a broker in its tests.
package example_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

const delay = 2 * time.Second

// program is the source of example_test.go as a program that runs all its examples.
func program(t *testing.T, url, exchange string) string {
	t.Helper()
	source, err := os.ReadFile("../../../example_test.go")
	require.NoError(t, err)
	text := string(source)
	for old, with := range map[string]string{
		"package delayer_test":                 "package main",
		`"amqp://guest:guest@localhost:5672/"`: `os.Getenv("DELAYER_URL")`,
		`ctx, "orders", `:                      `ctx, os.Getenv("EXCHANGE"), `,
		"30*time.Minute":                       "2*time.Second",
	} {
		require.Contains(t, text, old)
		text = strings.ReplaceAll(text, old, with)
	}
	t.Setenv("DELAYER_URL", url)
	t.Setenv("EXCHANGE", exchange)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(text+"\nfunc main() { Example(); ExampleSafeToRetry() }\n"), 0o600))
	return file
}

func TestExamples(t *testing.T) {
	url, orders := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	ch := rabbittest.Channel(t, rabbittest.Broker(t))
	const durable, autoDelete, exclusive, internal, noWait, autoAck, noLocal = true, true, true, true, true, true, true
	require.NoError(t, ch.ExchangeDeclare(orders, "topic", durable, !autoDelete, !internal, !noWait, nil))
	defer func() { _ = ch.ExchangeDelete(orders, false, false) }()
	_, err := ch.QueueDeclare(orders, durable, !autoDelete, !exclusive, !noWait, nil)
	require.NoError(t, err)
	defer func() { _, _ = ch.QueueDelete(orders, false, false, false) }()
	require.NoError(t, ch.QueueBind(orders, "order.*", orders, !noWait, nil))
	in, err := ch.Consume(orders, "", autoAck, !exclusive, !noLocal, !noWait, nil)
	require.NoError(t, err)

	start := time.Now()
	out, err := exec.Command("go", "run", program(t, url, orders)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for range 2 {
		m := <-in
		require.GreaterOrEqual(t, time.Since(start), delay, "early")
		require.Equal(t, []string{"order 42", "order.expired"}, []string{string(m.Body), m.RoutingKey})
	}
	d, err := backend.Open(context.Background(), backend.Config{Options: delayer.Options{URL: url}})
	require.NoError(t, err)
	require.NoError(t, d.(delayer.TopologyRemover).RemoveTopology(context.Background()))
	require.NoError(t, d.Close())
}
