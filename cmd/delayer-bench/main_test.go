package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lab/bench/report"
	"github.com/delayer-go/delayer/internal/lab/docs"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

// command runs the command line; a report goes into a folder of the test's own.
func command(ctx context.Context, t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(ctx, args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

func TestUsageErrorsNameTheWayOut(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"command":    {[]string{"compare"}, "compare"},
		"flag":       {[]string{"--fast"}, "--fast"},
		"backend":    {[]string{"--backend", "rumour"}, `must be one of "binaryladder","binaryladder/source"`},
		"scenario":   {[]string{"--scenario", "accuracy,rumour"}, `must be one of "accuracy","cost","hol","rate","backlog"`},
		"queue type": {[]string{"--queue-type", "stream"}, `must be one of "quorum","classic"`},
		"delays":     {[]string{"--delays", "soon"}, "1s-15s"},
		"fractions":  {[]string{"--delays", "1500us"}, "whole milliseconds"},
		"steps":      {[]string{"--steps", "1s,3s"}, "2s is no sum of steps"},
		"body":       {[]string{"--body=-1"}, "--body"},
		"two sizes":  {[]string{"--quick", "--full"}, "can't be used together"},
		"no effect":  {[]string{"--scenario", "cost,rate", "--rate", "5"}, "a pace of its own"},
		"nor these":  {[]string{"--scenario", "rate", "--messages", "5"}, "determines the number"},
		"nor those":  {[]string{"--scenario", "hol", "--delays", "1s-2s"}, "only scenarios accuracy and cost"},
		"backwards":  {[]string{"--delays", "5s-1s"}, "begins with the shorter"},
		"list":       {[]string{"--delays", "5s,,1m"}, "1s,5s,1m"},
		"rate":       {[]string{"--rate=-1"}, "negative"},
		"messages":   {[]string{"--messages=-1"}, "--messages"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, stderr := command(t.Context(), t, c.args...)
			assert.Equal(t, cli.Usage, status)
			assert.Contains(t, stderr, c.want)
		})
	}
}

func TestHelp(t *testing.T) {
	for name, wants := range map[string][]string{
		"": {"--quick", "Run the benchmark (default).", "render"}, "run": {"--quick"}, "render": {"--picture"},
	} {
		status, stdout, stderr := command(t.Context(), t, append(strings.Fields(name), "--help")...)
		assert.Equal(t, cli.OK, status, name)
		assert.Empty(t, stderr, name)
		for _, want := range append(wants, "delayer-bench") {
			assert.Contains(t, stdout, want, name)
		}
	}
}

func TestABrokerThatCannotBeUsedSaysWhatToDo(t *testing.T) {
	for name, c := range map[string]struct{ url, want string }{
		"nobody there": {"amqp://guest:hunter2@127.0.0.1:1/", "is RabbitMQ running there"},
		"scheme":       {"http://guest:hunter2@127.0.0.1/", "give it as amqp://"},
		"not a URL":    {"amqp://guest:hunter2@127.0.0.1:port/", "give it as amqp://"},
		"password":     {"", "check the user and password"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.url == "" {
				at, err := url.Parse(rabbittest.Broker(t).URL())
				require.NoError(t, err)
				at.User = url.UserPassword(at.User.Username(), "hunter2")
				c.url = at.String()
			}
			status, _, stderr := command(t.Context(), t, "--out", t.TempDir(), "--url", c.url)
			assert.Equal(t, cli.Failed, status)
			assert.Contains(t, stderr, c.want)
			assert.NotContains(t, stderr, "hunter2")
		})
	}
}

// TestBenchWritesItsReport: messages come by an exchange from a quorum queue to several consumers,
// and nothing is left.
func TestBenchWritesItsReport(t *testing.T) {
	broker := rabbittest.Broker(t)
	dir := filepath.Join(t.TempDir(), "new", "folder")
	status, stdout, stderr := command(t.Context(), t, "--quick", "--out", dir, "--url", broker.URL(),
		"--backend", "binaryladder,per-message-ttl", "--scenario", "accuracy", "--messages", "40", "--delays", "1s-2s",
		"--destination", "exchange", "--consume", "quorum", "--consumers", "3")
	require.Equal(t, cli.OK, status, stderr)
	assert.Contains(t, stdout, "\n  binaryladder   ")
	assert.Contains(t, strings.Join(strings.Fields(stdout), " "),
		"published to an exchange, received from a quorum queue with acknowledgements, by 3 consumers")
	if broker.Owned() {
		assert.Empty(t, benchObjects(t))
	}
	assert.Contains(t, stdout, "wrote "+filepath.Join(dir, "report.json"))
	assert.Contains(t, stderr, "[1/3] accuracy, binaryladder, quorum         p50 ")
	assert.NotContains(t, stderr, "\r", "no live line where there is no terminal")

	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	require.NoError(t, err)
	var report struct {
		Partial bool
		Runs    []struct{ Delivered int }
	}
	require.NoError(t, json.Unmarshal(text, &report))
	assert.False(t, report.Partial)
	require.Len(t, report.Runs, 3)
	assert.Equal(t, 40, report.Runs[0].Delivered)
	assert.FileExists(t, filepath.Join(dir, "report.html"))
	assert.FileExists(t, filepath.Join(dir, "report.bench"))
}

func TestAnInterruptedBenchSaysSo(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	status, _, stderr := command(ctx, t, "--out", t.TempDir(), "--url", "amqp://127.0.0.1:1/")
	assert.Equal(t, cli.Interrupted, status)
	assert.Contains(t, stderr, "interrupted")
}

func TestCommandLineHidesCredentials(t *testing.T) {
	got := commandLine([]string{"/bin/delayer-bench", "--url", "amqp://me:hunter2@host/", "--quick"})
	assert.Equal(t, "delayer-bench --url amqp://…@host/ --quick", got)
}

// substitution is a list that the shell makes.
var substitution = regexp.MustCompile(`"\$\([^"]*"`)

// TestDocs_Commands: each `delayer-bench …` in a code block of the documentation is one that the
// command takes.
func TestDocs_Commands(t *testing.T) {
	seen := 0
	for path, text := range docs.Pages(t, "../..") {
		text = strings.ReplaceAll(text, "$n", "1") // of a loop
		text = substitution.ReplaceAllString(text, "1ms,2ms")
		for _, args := range docs.Commands(text, "delayer-bench") {
			seen++
			parser, err := program().Parser(io.Discard, io.Discard, func(int) {})
			require.NoError(t, err)
			_, err = parser.Parse(args)
			assert.NoError(t, err, "%s: delayer-bench %q", path, args)
		}
	}
	require.Greater(t, seen, 5)
}

func reportFile(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(report.Report{SchemaVersion: report.SchemaVersion, Runs: []report.Run{{
		Scenario: "cost", Backend: "binaryladder", Variant: "source", QueueType: "quorum", Repetition: 1,
		Counts: report.Counts{Published: 9, Delivered: 9}, BrokerCPU: 100, Lateness: report.Percentiles{P50: 4, P99: 9},
	}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(path, text, 0o644))
	return path
}

func TestRenderWritesThePagesAgain(t *testing.T) {
	file := reportFile(t)
	status, stdout, stderr := command(t.Context(), t, "render", file)
	require.Equal(t, cli.OK, status, stderr)
	assert.Contains(t, stdout, "wrote "+filepath.Join(filepath.Dir(file), "report.html"))

	dir := filepath.Join(t.TempDir(), "new", "folder")
	status, _, stderr = command(t.Context(), t, "render", file, "--out", dir)
	require.Equal(t, cli.OK, status, stderr)
	assert.FileExists(t, filepath.Join(dir, "report.html"))
	assert.FileExists(t, filepath.Join(dir, "report.bench"))

	picture := filepath.Join(dir, "picture.svg")
	status, _, stderr = command(t.Context(), t, "render", file, "--picture", picture)
	require.Equal(t, cli.OK, status, stderr)
	assert.FileExists(t, picture)

	status, _, stderr = command(t.Context(), t, "render", file, "--picture", picture, "--out", dir)
	assert.Equal(t, cli.Usage, status)
	assert.Contains(t, stderr, "can't be used together")
	status, _, stderr = command(t.Context(), t, "render", filepath.Join(dir, "report.html"))
	assert.Equal(t, cli.Failed, status)
	assert.Contains(t, stderr, "not a report.json")
}

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
