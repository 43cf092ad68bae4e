package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

// TestRun: the page is there, what the printed lines publish arrives, and the environment's broker
// is left alone.
func TestRun(t *testing.T) {
	choice := os.Getenv("DELAYER_BROKER")
	if choice == rabbit.None || choice == rabbit.Given {
		rabbittest.Skipf(t, "starts a broker of its own (DELAYER_BROKER=docker or node)")
	}
	for _, name := range []string{"AMQP_URL", "DELAYER_URL", "DELAYER_BACKEND"} {
		t.Setenv(name, "somebody's")
	}
	t.Setenv("DELAYER_BROKER", choice) // run removes it
	ctx, stop := context.WithTimeout(t.Context(), rabbittest.Patience)
	defer stop()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, w)
		_ = w.Close()
	}()
	lines := bufio.NewScanner(r)
	text := until(t, lines, "Ctrl-C ends")

	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(text)
	answer, err := http.Get(address)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)

	for _, paste := range strings.Split(text, "\n\n") {
		client, script, found := strings.Cut(paste, ":\n")
		if client, _, _ = strings.Cut(client, " ("); !found || exec.Command("sh", "-c", needs[client]).Run() != nil {
			continue
		}
		shell := exec.Command("sh", "-ec", strings.NewReplacer("10s", "1s", "10_000", "1_000", "python3", "/usr/bin/python3").Replace(script))
		shell.Dir = "../.."
		out, err := shell.CombinedOutput()
		require.NoError(t, err, "%s: %s", script, out)
		until(t, lines, "hello from "+client)
		delete(needs, client)
	}
	if len(needs) > 0 {
		t.Logf("not installed: %v", needs)
	}
	stop()
	_, _ = io.Copy(io.Discard, r)
	require.NoError(t, <-ended)
	_, err = net.Dial("tcp", strings.Trim(address, "htp:/"))
	require.Error(t, err, "the page is still there")
}

// needs says of each client how to find out whether it is installed.
var needs = map[string]string{
	"curl": "command -v curl", "pika": "/usr/bin/python3 -c 'import pika'",
	"the proxy": "/usr/bin/python3 -c 'import pika'", "delayer send": "true",
}

// until returns what comes before a line that contains a text.
func until(t *testing.T, lines *bufio.Scanner, text string) string {
	t.Helper()
	var before strings.Builder
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return before.String()
		}
		before.WriteString(lines.Text() + "\n")
	}
	t.Fatalf("there is no %q behind:\n%s", text, &before)
	return ""
}
