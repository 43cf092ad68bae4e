package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestServeIsMeasured: what a plain client publishes arrives, and nothing is left.
func TestServeIsMeasured(t *testing.T) {
	broker := rabbittest.Broker(t)
	if !broker.Owned() {
		rabbittest.Skipf(t, "the broker at AMQP_URL cannot be asked for what is left")
	}
	status, stdout, stderr := command(t.Context(), t, "--quick", "--out", t.TempDir(), "--url", broker.URL(), "--queue-type", "quorum",
		"--backend", "serve", "--scenario", "accuracy", "--messages", "40", "--delays", "1s-2s")
	require.Equal(t, cli.OK, status, stderr)
	assert.Contains(t, stdout, "serve ladder")
	assert.Contains(t, stdout, "serve slots")
	assert.Contains(t, stdout, "No message was lost, delivered twice or early.")
	assert.Empty(t, benchObjects(t))
}

// benchObjects are the queues and exchanges of any benchmark.
func benchObjects(t *testing.T) string {
	var found []string
	for _, what := range []string{"list_queues", "list_exchanges"} {
		out, err := rabbittest.Broker(t).Ctl(t.Context(), "--quiet", what, "name")
		if !assert.NoError(t, err) {
			return ""
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "bench-") {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(found, "\n")
}
