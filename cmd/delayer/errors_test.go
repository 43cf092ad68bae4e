package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
