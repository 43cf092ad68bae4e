package project_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

const delay = 2 * time.Second

// program is the source of the root's example_test.go as a program that runs all its examples.
func program(t *testing.T, url, exchange string) string {
	t.Helper()
	text := read(t, "example_test.go")
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
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	orders, queue := r.Exchange("orders", "topic", nil), r.Queue("orders", nil)
	r.Bind(queue, "order.*", orders, nil)
	in := r.Consume(queue)

	start := time.Now()
	out, err := exec.Command("go", "run", program(t, r.Broker.URL(), orders)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for range 2 {
		m := rabbittest.Next(t, in)
		require.GreaterOrEqual(t, time.Since(start), delay, "early")
		require.Equal(t, []string{"order 42", "order.expired"}, []string{string(m.Body), m.RoutingKey})
	}
	rabbittest.Remove(t, backend.Config{Options: delayer.Options{URL: r.Broker.URL()}})
}
