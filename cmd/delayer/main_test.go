package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/statuscmd"
	"github.com/delayer-go/delayer/internal/lab/docs"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

const (
	exitOK          = cli.OK
	exitFailed      = cli.Failed
	exitUsage       = cli.Usage
	exitInterrupted = cli.Interrupted
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // these tests wait more than they compute; -parallel overrides it
	rabbittest.Main(m, withPlugin)
}

// withPlugin is a broker on which `delayer migrate` finds something to do. What was on its way to a
// queue at the moment that this was deleted comes again after ten seconds, not three minutes.
var withPlugin = rabbit.Options{
	Plugins: []string{rabbittest.DelayedMessages, "rabbitmq_management"},
	Args:    rabbit.DeadLetterRetry(10 * time.Second),
}

// vhost makes a virtual host for a test of names without a prefix, and returns its address.
func vhost(t *testing.T, b *rabbit.Broker) string {
	t.Helper()
	name := rabbittest.Prefix(t)
	at, err := url.Parse(b.URL())
	require.NoError(t, err)
	for _, args := range [][]string{{"add_vhost", name}, {"set_permissions", "-p", name, at.User.Username(), ".*", ".*", ".*"}} {
		_, err := b.Ctl(t.Context(), args...)
		require.NoError(t, err)
	}
	at.Path = "/" + name
	return at.String()
}

// command runs the command line.
func command(ctx context.Context, t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(ctx, args, strings.NewReader("from stdin"), &out, &errs)
	return status, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"help"}, {"help", "send"}, {"--version"}} {
		status, stdout, stderr := command(t.Context(), t, args...)
		assert.Equal(t, exitOK, status, args)
		assert.Contains(t, stdout, "delayer", args)
		assert.Empty(t, stderr, args)
	}
}

// TestHelp_Examples: each is for a command that there is, and is taken by it.
func TestHelp_Examples(t *testing.T) {
	for name, list := range examples {
		status, stdout, stderr := command(t.Context(), t, append(strings.Fields(name), "--help")...)
		require.Equal(t, exitOK, status, stderr)
		require.Contains(t, stdout, "\nExamples:\n")
		for _, line := range list {
			require.Contains(t, stdout, "\n  "+line+"\n", name)
			args := strings.Fields(line)
			require.Equal(t, "delayer", args[0])
			require.True(t, args[1] == "help" || strings.HasPrefix(strings.Join(args[1:], " "), name), line)
			exited := false
			parser, err := program().Parser(io.Discard, io.Discard, func(int) { exited = true })
			require.NoError(t, err)
			if args[1] == "help" {
				args = append(args[1:], "--help")
			}
			_, err = parser.Parse(args[1:])
			require.True(t, err == nil || exited, "%s: %v", line, err)
		}
	}
	_, stdout, _ := command(t.Context(), t, "--help")
	for _, group := range []string{"Send:", "Look after:", "Keep running:", "Migrate:", "Other:"} {
		require.Contains(t, stdout, "\n"+group+"\n")
	}
}

// withoutTable are the commands that print no table, and what they print.
var withoutTable = map[string]string{
	"serve":            "its log",
	"topology print":   "has definitions, which are JSON",
	"topology remove":  "what it did",
	"messages export":  "is JSON",
	"messages show":    "is JSON",
	"outbox run":       "its log",
	"outbox migrate":   "a sentence",
	"migrate assess":   "a checklist",
	"migrate switch":   "what it did",
	"migrate evacuate": "what it did",
	"migrate retire":   "what it did",
	"migrate rollback": "what it did",
	"health":           "the answer",
	"help":             "help",
}

// TestEveryCommand: what a user finds in one command he finds in all of them.
func TestEveryCommand(t *testing.T) {
	parser, err := program().Parser(&bytes.Buffer{}, &bytes.Buffer{}, func(int) {})
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, leaf := range parser.Model.Leaves(true) {
		path := strings.TrimPrefix(leaf.FullPath(), "delayer ")
		seen[path] = true
		flags := map[string]*kong.Flag{}
		for _, f := range leaf.Flags {
			flags[f.Name] = f
		}
		if withoutTable[path] == "" {
			require.Contains(t, flags, "output", "%s prints a table: it needs --output json, or a place in withoutTable", path)
			assert.Contains(t, flags["output"].EnumSlice(), "json", path)
			assert.NotEqual(t, "json", flags["output"].Default, path)
		}
		if flags["config"] != nil && path != "topology print" {
			assert.Contains(t, flags, "url", "%s needs a broker", path)
		}
		if url := flags["url"]; url != nil {
			assert.Contains(t, url.Help, "DELAYER_URL", path)
		}
		_, help, _ := command(t.Context(), t, append([]string{"help"}, strings.Fields(path)...)...)
		assert.Contains(t, help, "\nExit status: 0 done, 1 failed, 2 used wrongly, 130 interrupted.\n", path)
	}
	for path := range withoutTable {
		assert.Contains(t, seen, path, "there is no such command")
	}
}

// TestSend_URL: the flag overrides the variable, and that the file.
func TestSend_URL(t *testing.T) {
	config := configFile(t, "url: amqp://guest:hunter2@127.0.0.1:1/\n")
	args := []string{"send", "--config", config, "--key", "k", "--delay", "1s", "--body", "x"}
	for _, c := range []struct{ variable, flag, want string }{
		{"", "", "127.0.0.1:1"},
		{"amqp://guest:hunter2@127.0.0.1:2/", "", "127.0.0.1:2"},
		{"amqp://guest:hunter2@127.0.0.1:2/", "amqp://guest:hunter2@127.0.0.1:3/", "127.0.0.1:3"},
	} {
		t.Setenv("DELAYER_URL", c.variable)
		status, _, stderr := command(t.Context(), t, append(args, "--url="+c.flag)...)
		require.Equal(t, exitFailed, status)
		require.Contains(t, stderr, c.want)
		require.NotContains(t, stderr, "hunter2")
	}
}

// TestUsageErrors: each mistake has an error that says what to do, and shows no password.
func TestUsageErrors(t *testing.T) {
	const nowhere = "url: amqp://u:hunter2@127.0.0.1:1/\n"
	files := strings.NewReplacer(
		"LADDER", configFile(t, nowhere),
		"TIERS", configFile(t, nowhere+"backend: fixedtiers\n"),
		"NOTHING", configFile(t, nowhere),
		"WHEEL", configFile(t, nowhere+"backend: controller\n"),
		"ROUNDS", configFile(t, nowhere+"backend: controller\ncontroller: {wheel: rounds}\n"),
		"PLUGIN", configFile(t, nowhere+"backend: plugin\n"),
		"MISSING", filepath.Join(t.TempDir(), "missing"),
	)
	const (
		send      = "send --key k --body x --delay 1s "
		migration = " --rabbitmqctl x"
		url       = " --url amqp://u:hunter2@127.0.0.1:1/"
		api       = " --management http://u:hunter2@127.0.0.1:1"
	)
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"bench", exitUsage, "bench"},
		{"send --fast", exitUsage, "--fast"},
		{"serve --pprof", exitUsage, "--pprof"},
		{"outbox run --pprof", exitUsage, "--pprof"},
		{"serve --log xml", exitUsage, "xml"},

		{"send --delay 1s --body x", exitUsage, "give an exchange, or a queue's name as the key (see delayer send --help)"},
		{"send --key k --body x", exitUsage, "give a delay, or --at with a time"},
		{"send --key k --body x --delay 90", exitUsage, "--delay"},
		{send + "--header a", exitUsage, "<key>=<value>"},
		{send, exitFailed, "set DELAYER_URL"},
		{send + "--config MISSING", exitFailed, "give an existing file"},
		{"send --config LADDER --key k --body @MISSING --delay 1s", exitFailed, "--body: open "},
		{send + "--config LADDER", exitFailed, "is RabbitMQ running there"},
		{"cancel", exitUsage, "give tickets, or --id and --at"},
		{"cancel --id x", exitUsage, "give tickets, or --id and --at"},
		{"cancel d2.x --id x --at 2099-01-31T18:00Z", exitUsage, "give tickets, or --id and --at"},
		{"postpone d2.x", exitUsage, "give a delay, or --at"},
		{"cancel d2.x --config LADDER", exitFailed, "with this configuration messages cannot be cancelled"},
		{"postpone d2.x 1h --config ROUNDS", exitFailed, "with this configuration messages cannot be cancelled"},
		{"cancel d2.x --config WHEEL", exitFailed, "is RabbitMQ running there"},

		{"messages list", exitFailed, "delayer messages list: no broker: give --config with a url, or set DELAYER_URL"},
		{"messages retry --config LADDER", exitFailed, "is RabbitMQ running there"},
		{"messages list --config LADDER --backend abacus", exitFailed, `unknown backend "abacus" (known: `},
		{"messages list --limit=-1", exitUsage, "--limit: -1 is negative; 0 shows all"},
		{"messages drop", exitUsage, "drop"},

		{"status --timeout 0s", exitUsage, "--timeout must be positive"},
		{"status --fail-if lost>0", exitUsage, `--fail-if: "lost>0": there is no number "lost" (names: bindings, controllers,`},
		{"status --every 0s", exitUsage, "--every must be positive"},
		{"status --listen :0", exitUsage, "--listen: give --watch too"},
		{"status --output xml", exitUsage, `--output must be one of "table","json"`},
		{"status", exitFailed, "delayer status: no broker: give --config with a url, or set DELAYER_URL"},
		{"status" + url, exitFailed, "is RabbitMQ running there"},
		{"status --management h:15672" + url, exitFailed, "want http://user:password@host:15672"},
		{"status --url http://u:hunter2@127.0.0.1:1/", exitFailed, `scheme "http" is not AMQP`},

		{"topology print --backend abacus", exitFailed, `delayer topology print: open backend: invalid configuration: unknown backend "abacus" (known: `},
		{"topology print --output xml", exitUsage, `--output must be one of "text","definitions"`},
		{"topology verify" + url, exitFailed, "delayer topology verify: open management: invalid configuration: not given"},
		{"topology verify" + url + api, exitFailed, "is the management plugin enabled"},

		{"serve", exitFailed, "set DELAYER_URL"},
		{"serve --config TIERS", exitFailed, "invalid configuration: there is nothing to serve (write backend: controller, or serve: {exchanges"},
		{"serve --config NOTHING", exitFailed, "invalid configuration: there is nothing to serve (write backend: controller, or serve: {exchanges"},
		{"outbox run --batch=0", exitUsage, "must be positive"},
		{"outbox run --workers=0", exitUsage, "must be positive"},
		{"outbox migrate", exitFailed, "set DELAYER_POSTGRES"},
		{"outbox migrate --postgres postgres://me:hunter2@127.0.0.1:1/", exitFailed, "connect"},
		{"outbox migrate --postgres postgres://me:hunter2@127.0.0.1:x/", exitFailed, "it looks like postgres://"},

		{"migrate switch --exchange x --mode serve", exitUsage, "missing flags: --rabbitmqctl"},
		{"migrate switch --exchange x" + migration, exitUsage, "--mode"},
		{"migrate switch --exchange= --mode serve --yes" + migration, exitUsage, "the name is empty"},
		{"migrate rollback" + migration, exitUsage, "--exchange"},
		{"migrate evacuate --leave 1s" + migration, exitUsage, "--leave must be at least 10s"},
		{"migrate evacuate --rabbitmqctl x'" + url, exitFailed, "expecting closing quote"},
		{"migrate evacuate --config PLUGIN" + migration, exitFailed, "the configuration's backend is the plugin itself"},
		{"migrate assess --rabbitmqctl x" + url, exitFailed, "no management API: give --management"},
		{"migrate assess --rabbitmqctl x" + url + api, exitFailed, "is the management plugin enabled"},
	} {
		status, stdout, stderr := command(t.Context(), t, strings.Fields(files.Replace(c.args))...)
		require.Equal(t, c.status, status, "%s: %s", c.args, stderr)
		assert.Contains(t, stderr, c.says, c.args)
		assert.Empty(t, stdout, c.args)
		assert.NotContains(t, stderr, "hunter2", c.args)
		if status == exitUsage {
			assert.Contains(t, stderr, "--help", c.args)
		}
	}
}

func TestHealth(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.Error(w, "the broker is away", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}))
	defer http.DefaultClient.CloseIdleConnections()
	status, stdout, stderr := command(t.Context(), t, "health", server.URL+"/healthz")
	require.Equal(t, exitOK, status, stderr)
	require.Equal(t, "ok\n", stdout)
	status, _, stderr = command(t.Context(), t, "health", server.URL+"/readyz")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "503 Service Unavailable: the broker is away")
	server.Close()
	status, _, stderr = command(t.Context(), t, "health", server.URL+"/healthz")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "does the command run with --listen?")
}

// TestDocs_Status: docs/operating.md shows the fields that `delayer status --output json` has, and
// no other.
func TestDocs_Status(t *testing.T) {
	for _, b := range docs.Blocks(docs.Pages(t, "../..")["docs/operating.md"]) {
		if b.Lang == "json" {
			var shown statuscmd.Report
			decoder := json.NewDecoder(strings.NewReader(b.Text))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(&shown))
			again, err := json.Marshal(shown)
			require.NoError(t, err)
			require.JSONEq(t, b.Text, string(again))
			return
		}
	}
	t.Fatal("docs/operating.md shows no JSON")
}

// TestDocs_Commands: each `delayer …` in a code block of the documentation is one that the command
// takes.
func TestDocs_Commands(t *testing.T) {
	seen := 0
	for path, text := range docs.Pages(t, "../..") {
		for _, args := range docs.Commands(text, "delayer") {
			seen++
			if args[0] == "help" {
				args = append(args[1:], "--help")
			}
			exited := false
			parser, err := program().Parser(io.Discard, io.Discard, func(int) { exited = true })
			require.NoError(t, err)
			_, err = parser.Parse(args)
			assert.True(t, err == nil || exited, "%s: delayer %q: %v", path, args, err)
		}
	}
	require.Greater(t, seen, 40)
}
