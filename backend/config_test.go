package backend

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
)

func TestParse(t *testing.T) {
	want := Config{
		Options:      delayer.Options{URL: "amqp://localhost/", Prefix: "p", QueueType: "classic", Connections: 2},
		Backend:      "binaryladder",
		BinaryLadder: binaryladder.Config{Tick: time.Millisecond, Routing: "source", Steps: "1ms,2ms"},
	}
	for name, text := range map[string]string{
		"yaml": "url: amqp://localhost/\nbackend: binaryladder\nprefix: p\nqueue_type: classic\nconnections: 2\n" +
			"binaryladder: {tick: 1ms, routing: source, steps: [1ms, 2ms]}\n",
		"json": `{"url": "amqp://localhost/", "backend": "binaryladder", "prefix": "p", "queue_type": "classic", "connections": 2,
			"binaryladder": {"tick": "1ms", "routing": "source", "steps": "1ms,2ms"}}`,
	} {
		cfg, err := Parse(strings.NewReader(text))
		require.NoError(t, err, name)
		require.Equal(t, want, cfg, name)
	}
	for _, text := range []string{"", `management: ""`} {
		cfg, err := Parse(strings.NewReader(text))
		require.NoError(t, err, text)
		require.Equal(t, Config{}, cfg, text)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"backnd: binaryladder":             "open backnd: invalid configuration: line 1: unknown key (known: url, management, tls, prefix, queue_type, passive, connections, backend, binaryladder, fixedtiers, controller, native)",
		"binaryladder: {level: 3}":         "open binaryladder.level: invalid configuration: line 1: unknown key (known: tick, routing, steps)",
		"binaryladder: {steps: []}":        `open binaryladder.steps: invalid configuration: zero or nothing is not a value for it`,
		"binaryladder: {steps: {a: b}}":    "cannot read map into string",
		"controller: {levels: many}":       "cannot read str `many` into int",
		"binaryladder: {tick: 0}":          "into a duration (durations have a unit",
		"binaryladder: {tick: 0s}":         "open binaryladder.tick: invalid configuration: zero or nothing is not a value",
		"binaryladder: {tick: 5}":          "durations have a unit",
		"fixedtiers: {tiers: []}":          "open fixedtiers.tiers: invalid configuration: zero or nothing is not a value for it",
		"fixedtiers: {tiers: 1m}":          "cannot read str `1m` into []a duration",
		"fixedtiers: {tiers: [60]}":        "durations have a unit",
		"fixedtiers: {max_length: 0}":      "open fixedtiers.max_length: invalid configuration: zero or nothing is not a value for it",
		"controller: {publish_only: 2}":    "cannot read int `2` into bool",
		"controller: {levels: 0}":          "open controller.levels: invalid configuration: zero or nothing is not a value for it",
		"binaryladder: 5":                  "open binaryladder: invalid configuration: line 1 is not a mapping",
		"- a\n- b":                         "line 1 is not a mapping",
		"prefix: ''":                       "open prefix",
		"queue_type: classic\n---\nurl: x": "more than one document",
		"url: [":                           "did not find expected node content",
		"connections: 1\nconnections: 2":   "already defined",
	} {
		_, err := Parse(strings.NewReader(text))
		require.ErrorIs(t, err, delayer.ErrConfig, text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "yaml", text)
	}
}

func TestFromEnv(t *testing.T) {
	cfg, err := FromEnv(Config{Options: delayer.Options{Prefix: "file", QueueType: "classic"}}, []string{
		"DELAYER_URL=amqp://u:p@h/", "DELAYER_PREFIX=env", "DELAYER_BINARYLADDER_TICK=250ms", "DELAYER_BINARYLADDER_STEPS=+43m",
		"DELAYER_BACKEND=", "DELAYER_BROKER=node", "DELAYER_RABBITMQ_IMAGE=x", "HOME=/h", "DELAYER_TEST_SUMMARY=f",
		"DELAYER_SERVICE_HOST=10.0.0.1", "DELAYER_SERVICE_PORT=5672", "DELAYER_SERVICE_PORT_AMQP=5672", "DELAYER_PORT=tcp://10.0.0.1:5672",
		"DELAYER_PORT_5672_TCP=tcp://10.0.0.1:5672", "DELAYER_PORT_5672_TCP_PROTO=tcp", "DELAYER_PORT_5672_TCP_PORT=5672",
		"DELAYER_PORT_5672_TCP_ADDR=10.0.0.1", "DELAYER_SERVE_SERVICE_HOST=10.0.0.2", "DELAYER_SERVE_SERVICE_PORT_HTTP=80",
		"DELAYER_SERVE_SERVICE_PORT=80", "DELAYER_SERVE_PORT=tcp://10.0.0.2:80", "DELAYER_SERVE_PORT_80_TCP_ADDR=10.0.0.2",
	})
	require.NoError(t, err)
	require.Equal(t, Config{Options: delayer.Options{URL: "amqp://u:p@h/", Prefix: "env", QueueType: "classic"}, BinaryLadder: binaryladder.Config{Tick: 250 * time.Millisecond, Steps: "+43m"}}, cfg)

	cfg, err = FromEnv(Config{}, []string{"DELAYER_FIXEDTIERS_TIERS=1m, 2h", "DELAYER_FIXEDTIERS_MAX_LENGTH=9", "DELAYER_CONTROLLER_PUBLISH_ONLY=true",
		"DELAYER_CONTROLLER_MEMORY=8388608"})
	require.NoError(t, err)
	require.Equal(t, Config{
		FixedTiers: fixedtiers.Config{Tiers: []time.Duration{time.Minute, 2 * time.Hour}, MaxLength: 9},
		Controller: controller.Config{PublishOnly: true, Memory: 8 << 20},
	}, cfg)

	for entry, want := range map[string]string{
		"DELAYER_FIXEDTIERS_TIERS=1m;2m":             `"1m;2m" is not a list of durations such as 1m,5m,15m`,
		"DELAYER_CONTROLLER_PUBLISH_ONLY=maybe":      `"maybe" is neither true nor false`,
		"DELAYER_BACKND=x":                           "DELAYER_BACKND: invalid configuration: unknown variable (known, each with DELAYER_ before it: URL, MANAGEMENT,",
		"DELAYER_PORT_X=1":                           "DELAYER_PORT_X: invalid configuration: unknown variable",
		"DELAYER_HTTP_PORT=8080":                     "DELAYER_HTTP_PORT: invalid configuration: unknown variable", // no Service has it
		"DELAYER_PORT=8080":                          "DELAYER_PORT: invalid configuration: unknown variable",
		"DELAYER_BINARYLADDER_TICK=5":                `"5" is not a duration`,
		"DELAYER_CONTROLLER_LEVELS=x":                `"x" is not a whole number`,
		"DELAYER_CONTROLLER_LEVELS=0":                "leave it unset",
		"DELAYER_CONTROLLER_MEMORY=64MiB":            `"64MiB" is not a whole number`,
		"DELAYER_BINARYLADDER_TICK=0s":               "leave it unset",
		"DELAYER_CONNECTIONS=1000000000000000000000": "not a whole number",
	} {
		_, err := FromEnv(Config{}, []string{entry})
		require.ErrorIs(t, err, delayer.ErrConfig, entry)
		require.ErrorContains(t, err, want, entry)
	}
}

// TestFromEnv_EveryKey: what a file may set, a variable may set.
func TestFromEnv_EveryKey(t *testing.T) {
	var cfg Config
	for _, f := range fields(&cfg) {
		if err := f.set("1"); err != nil {
			require.NotContains(t, err.Error(), "cannot be set", f.env())
		}
	}
	require.Equal(t, 1, cfg.Controller.Memory)
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "delayer.yaml")
	require.NoError(t, os.WriteFile(path, []byte("prefix: file\nqueue_type: classic\n"), 0o600))
	t.Setenv("DELAYER_PREFIX", "env")
	cfg, err := Load(path)
	require.NoError(t, err)
	require.Equal(t, Config{Options: delayer.Options{Prefix: "env", QueueType: "classic"}}, cfg)

	_, err = Load(path + ".nowhere")
	require.ErrorIs(t, err, delayer.ErrConfig)
	require.ErrorContains(t, err, "no such file")
}

func TestOpenRefusesBeforeItConnects(t *testing.T) {
	const nowhere = "amqp://guest:secret@127.0.0.1:1/"
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "open url: invalid configuration: empty (want amqp://user:password@host:5672/vhost"},
		{Config{Options: delayer.Options{URL: "localhost:5672"}}, "no scheme"},
		{Config{Options: delayer.Options{URL: "amqp://guest:se cret@localhost/"}}, "malformed"},
		{Config{Options: delayer.Options{URL: nowhere}, Backend: "abacus"}, `open backend: invalid configuration: unknown backend "abacus" (known: binaryladder`},
		{Config{Options: delayer.Options{URL: nowhere, QueueType: "stream"}}, "neither quorum nor classic"},
		{Config{Options: delayer.Options{URL: nowhere, Connections: -1}}, "not between 1 and 64"},
		{Config{Options: delayer.Options{URL: nowhere, Prefix: "amq.x"}}, "belong to the broker"},
		{Config{Options: delayer.Options{URL: nowhere, Prefix: strings.Repeat("p", 129)}}, "129 bytes"},
		{Config{Options: delayer.Options{URL: nowhere}, BinaryLadder: binaryladder.Config{Steps: "1s,3s"}}, "2s is no sum of steps of the list: add a step of 2s"},
		{Config{Options: delayer.Options{URL: nowhere}, BinaryLadder: binaryladder.Config{Routing: "magic"}}, "neither source nor topic"},
		{Config{Options: delayer.Options{URL: nowhere}, Backend: "fixedtiers", FixedTiers: fixedtiers.Config{Tiers: []time.Duration{1}}}, "open fixedtiers.tiers: invalid configuration: 1ns is not"},
		{Config{Options: delayer.Options{URL: nowhere}, Backend: "controller", Controller: controller.Config{Levels: 9}},
			"levels and tick are of rounds (set controller.wheel: rounds)"},
		{Config{Options: delayer.Options{URL: nowhere}, Backend: "controller", Controller: controller.Config{Memory: 1<<20 - 1}},
			"open controller.memory: invalid configuration: 1048575 bytes are less than 1048576, 1 MiB"},
		{Config{Options: delayer.Options{URL: nowhere, QueueType: "classic"}, Backend: "controller"},
			"slots are quorum queues, and queue_type is classic (set controller.wheel: rounds)"},
	} {
		d, err := Open(context.Background(), c.cfg)
		require.Nil(t, d)
		require.ErrorIs(t, err, delayer.ErrConfig, "%+v", c.cfg)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "secret", "no error shows a password")
	}

	_, err := Open(context.Background(), Config{Options: delayer.Options{URL: nowhere}})
	require.ErrorIs(t, err, delayer.ErrUnavailable)
	require.ErrorContains(t, err, "amqp://127.0.0.1:1/")
	require.ErrorContains(t, err, "is RabbitMQ running there")
	require.NotContains(t, err.Error(), "secret")
}

// FuzzParse: what is accepted says the same when it is written down again, as a file and as
// variables.
func FuzzParse(f *testing.F) {
	f.Add("url: amqp://localhost/\nbinaryladder: {steps: [1ms, 2ms], tick: 1ms}")
	f.Add(`{"prefix": 5, "binaryladder": []}`)
	f.Add("&a [*a]")
	f.Add("fixedtiers: {tiers: [1m, 90s], rounding: exact}\ncontroller: {publish_only: true}")
	f.Add("connections: 1.5")
	f.Add("controller: {tick: 1e6}")
	f.Add("prefix: !!binary gIGC\nbackend: |\n  a\n  b\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := Parse(strings.NewReader(text))
		if err != nil {
			require.ErrorIs(t, err, delayer.ErrConfig)
			return
		}
		_, _ = Topology(cfg) // no panic
		written, environ := rewritten(t, cfg)
		again, err := Parse(strings.NewReader(written))
		require.NoError(t, err, written)
		require.Equal(t, sane(cfg), sane(again), written)
		again, err = FromEnv(Config{}, environ)
		require.NoError(t, err)
		require.Equal(t, sane(cfg), sane(again), environ)
	})
}

// FuzzFromEnv: whatever a variable says, it is taken as it is or refused, and never shown if it may
// be a password.
func FuzzFromEnv(f *testing.F) {
	f.Add("URL", "amqp://u:p@h/")
	f.Add("BINARYLADDER_TICK", "250ms")
	f.Add("FIXEDTIERS_TIERS", "1m, 5m")
	f.Add("CONTROLLER_PUBLISH_ONLY", "T")
	f.Add("CONNECTIONS", "+3")
	f.Add("NO=SUCH", "x")
	f.Fuzz(func(t *testing.T, name, value string) {
		cfg, err := FromEnv(Config{}, []string{envPrefix + name + "=" + value})
		if err != nil {
			require.ErrorIs(t, err, delayer.ErrConfig)
			if name == "URL" {
				t.Fatalf("a text is refused: %v", err)
			}
			return
		}
		_, environ := rewritten(t, cfg)
		again, err := FromEnv(Config{}, environ)
		require.NoError(t, err)
		require.Equal(t, cfg, again)
	})
}

// sane makes a list of nothing and no list the same.
func sane(cfg Config) Config {
	if len(cfg.FixedTiers.Tiers) == 0 {
		cfg.FixedTiers.Tiers = nil
	}
	return cfg
}

// rewritten is a configuration as a file and as variables, with the fields that are not zero.
func rewritten(t *testing.T, cfg Config) (file string, environ []string) {
	t.Helper()
	tree := map[string]any{}
	for _, f := range fields(&cfg) {
		if f.empty() {
			continue
		}
		part, leaf := tree, f.name
		if section, key, nested := strings.Cut(f.name, "."); nested {
			if tree[section] == nil {
				tree[section] = map[string]any{}
			}
			part, leaf = tree[section].(map[string]any), key
		}
		text := fmt.Sprint(f.value.Interface())
		part[leaf] = f.value.Interface()
		switch v := f.value.Interface().(type) {
		case []time.Duration:
			list := make([]string, len(v))
			for i, d := range v {
				list[i] = d.String()
			}
			part[leaf], text = list, strings.Join(list, ",")
		}
		environ = append(environ, f.env()+"="+text)
	}
	out, err := yaml.Marshal(tree)
	require.NoError(t, err)
	return string(out), environ
}
