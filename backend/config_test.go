package backend

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func TestParse(t *testing.T) {
	want := Config{
		URL: "amqp://localhost/", Backend: "binaryladder", Prefix: "p", QueueType: "classic", Connections: 2,
		BinaryLadder: BinaryLadder{Levels: 6, Tick: time.Millisecond, Routing: "source", BitsPerLevel: 6},
	}
	for name, text := range map[string]string{
		"yaml": "url: amqp://localhost/\nbackend: binaryladder\nprefix: p\nqueue_type: classic\nconnections: 2\n" +
			"binaryladder: {levels: 6, tick: 1ms, routing: source, bits_per_level: 6}\n",
		"json": `{"url": "amqp://localhost/", "backend": "binaryladder", "prefix": "p", "queue_type": "classic", "connections": 2,
			"binaryladder": {"levels": 6, "tick": "1ms", "routing": "source", "bits_per_level": 6}}`,
	} {
		cfg, err := Parse(strings.NewReader(text))
		require.NoError(t, err, name)
		require.Equal(t, want, cfg, name)
	}
	cfg, err := Parse(strings.NewReader(""))
	require.NoError(t, err)
	require.Equal(t, Config{}, cfg)
}

func TestDefaults(t *testing.T) {
	require.Equal(t, Default(), Config{}.withDefaults())
	wide := Config{BinaryLadder: BinaryLadder{BitsPerLevel: 6}}.withDefaults().BinaryLadder
	require.Equal(t, BinaryLadder{Levels: 4, BitsPerLevel: 6, Tick: time.Second, Routing: "source"}, wide)
}

func TestParseTheOtherBackends(t *testing.T) {
	want := Config{
		FixedTiers: FixedTiers{Tiers: []time.Duration{time.Second, 90 * time.Minute}, Rounding: "exact", MaxLength: 5, Overflow: "early", Prefix: "d"},
		Plugin:     Plugin{Exchange: "theirs"},
		Controller: Controller{Levels: 3, Tick: time.Millisecond, Run: new(false)},
	}
	for name, text := range map[string]string{
		"yaml": "fixedtiers: {tiers: [1s, 1h30m], rounding: exact, max_length: 5, overflow: early, prefix: d}\n" +
			"plugin: {exchange: theirs}\ncontroller:\n  levels: 3\n  tick: 1ms\n  run: false\n",
		"json": `{"fixedtiers": {"tiers": ["1s", "1h30m"], "rounding": "exact", "max_length": 5, "overflow": "early", "prefix": "d"},
			"plugin": {"exchange": "theirs"}, "controller": {"levels": 3, "tick": "1ms", "run": false}}`,
	} {
		cfg, err := Parse(strings.NewReader(text))
		require.NoError(t, err, name)
		require.Equal(t, want, cfg, name)
		require.False(t, *cfg.withDefaults().Controller.Run, "false is not the default, and can be said")
	}
}

func TestNoExchangeIsTheDefault(t *testing.T) {
	cfg, err := Parse(strings.NewReader(`plugin: {exchange: ""}`))
	require.NoError(t, err)
	require.Equal(t, Config{}, cfg)
}

// TestTierPrefixes: tiers of different prefixes never meet.
func TestTierPrefixes(t *testing.T) {
	for _, c := range []struct{ prefix, tiers, want string }{
		{"", "", "delay"},
		{"delayer", "", "delay"},
		{"shop", "", "shop.delay"},
		{"shop", "mine", "mine"},
	} {
		cfg := Config{Prefix: c.prefix, FixedTiers: FixedTiers{Prefix: c.tiers}}.withDefaults()
		require.Equal(t, c.want, cfg.FixedTiers.Prefix)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"backnd: binaryladder":              "open backnd: invalid configuration: line 1: there is no such key (known: url, management, tls, backend, prefix, queue_type, declare, connections, binaryladder, fixedtiers, plugin, controller)",
		"binaryladder: {level: 3}":          "open binaryladder.level: invalid configuration: line 1: there is no such key (known: levels, tick, routing, bits_per_level)",
		"binaryladder: {levels: 0}":         "open binaryladder.levels: invalid configuration: 0 is not a value for it",
		"binaryladder: {levels: many}":      "cannot read str `many` into int",
		"binaryladder: {tick: 0}":           "into a duration (durations have a unit",
		"binaryladder: {tick: 0s}":          "open binaryladder.tick: invalid configuration: 0 is not a value",
		"binaryladder: {tick: 5}":           "durations have a unit",
		"fixedtiers: {tiers: []}":           "open fixedtiers.tiers: invalid configuration: nothing is not a value for it",
		"fixedtiers: {tiers: 1m}":           "cannot read str `1m` into []a duration",
		"fixedtiers: {tiers: [60]}":         "durations have a unit",
		"fixedtiers: {max_length: 0}":       "open fixedtiers.max_length: invalid configuration: 0 is not a value for it",
		"controller: {run: maybe}":          "cannot read str `maybe` into bool",
		"controller: {run: null}":           "open controller.run: invalid configuration: nothing is not a value for it",
		"controller: {levels: 0}":           "open controller.levels: invalid configuration: 0 is not a value for it",
		"binaryladder: 5":                   "open binaryladder: invalid configuration: line 1 is not a mapping",
		"- a\n- b":                          "line 1 is not a mapping",
		"prefix: ''":                        "open prefix",
		"queue_type: classic\n---\nurl: x":  "more than one document",
		"url: [":                            "did not find expected node content",
		"connections: 1\nconnections: 2":    "already defined",
		"binaryladder: {bits_per_level: -}": "invalid configuration",
	} {
		_, err := Parse(strings.NewReader(text))
		require.ErrorIs(t, err, delayer.ErrConfig, text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "yaml", text)
	}
}

func TestFromEnv(t *testing.T) {
	cfg, err := FromEnv(Config{Prefix: "file", QueueType: "classic"}, []string{
		"DELAYER_URL=amqp://u:p@h/", "DELAYER_PREFIX=env", "DELAYER_BINARYLADDER_TICK=250ms", "DELAYER_BINARYLADDER_BITS_PER_LEVEL=2",
		"DELAYER_BACKEND=", "DELAYER_BROKER=node", "DELAYER_RABBITMQ_IMAGE=x", "HOME=/h", "DELAYER_TEST_SUMMARY=f",
	})
	require.NoError(t, err)
	require.Equal(t, Config{URL: "amqp://u:p@h/", Prefix: "env", QueueType: "classic", BinaryLadder: BinaryLadder{Tick: 250 * time.Millisecond, BitsPerLevel: 2}}, cfg)

	cfg, err = FromEnv(Config{}, []string{"DELAYER_FIXEDTIERS_TIERS=1m, 2h", "DELAYER_FIXEDTIERS_MAX_LENGTH=9", "DELAYER_CONTROLLER_RUN=false"})
	require.NoError(t, err)
	require.Equal(t, Config{
		FixedTiers: FixedTiers{Tiers: []time.Duration{time.Minute, 2 * time.Hour}, MaxLength: 9}, Controller: Controller{Run: new(false)},
	}, cfg)

	for entry, want := range map[string]string{
		"DELAYER_FIXEDTIERS_TIERS=1m;2m":             `"1m;2m" is not a list of durations such as 1m,5m,15m`,
		"DELAYER_CONTROLLER_RUN=maybe":               `"maybe" is neither true nor false`,
		"DELAYER_BACKND=x":                           "DELAYER_BACKND: invalid configuration: there is no such variable (known: DELAYER_URL, DELAYER_MANAGEMENT,",
		"DELAYER_BINARYLADDER_TICK=5":                `"5" is not a duration`,
		"DELAYER_BINARYLADDER_LEVELS=x":              `"x" is not a whole number`,
		"DELAYER_BINARYLADDER_LEVELS=0":              "leave it unset",
		"DELAYER_BINARYLADDER_TICK=0s":               "leave it unset",
		"DELAYER_CONNECTIONS=1000000000000000000000": "not a whole number",
	} {
		_, err := FromEnv(Config{}, []string{entry})
		require.ErrorIs(t, err, delayer.ErrConfig, entry)
		require.ErrorContains(t, err, want, entry)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "delayer.yaml")
	require.NoError(t, os.WriteFile(path, []byte("prefix: file\nqueue_type: classic\n"), 0o600))
	t.Setenv("DELAYER_PREFIX", "env")
	cfg, err := Load(path)
	require.NoError(t, err)
	require.Equal(t, Config{Prefix: "env", QueueType: "classic"}, cfg)

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
		{Config{URL: "localhost:5672"}, "no scheme"},
		{Config{URL: "http://guest:secret@localhost/"}, `scheme "http" is not AMQP`},
		{Config{URL: "amqp://guest:se cret@localhost/"}, "malformed"},
		{Config{URL: "amqp://guest:secret%zz@localhost/"}, "percent-encode"},
		{Config{URL: "amqp://guest:secret@localhost:port/"}, "malformed"},
		{Config{URL: nowhere, Backend: "abacus"}, `open backend: invalid configuration: "abacus" is no backend (known: binaryladder`},
		{Config{URL: nowhere, QueueType: "stream"}, "neither quorum nor classic"},
		{Config{URL: nowhere, Connections: -1}, "not between 1 and 64"},
		{Config{URL: nowhere, Prefix: "amq.x"}, "belong to the broker"},
		{Config{URL: nowhere, Prefix: strings.Repeat("p", 129)}, "129 bytes"},
		{Config{URL: nowhere, BinaryLadder: BinaryLadder{Levels: 64}}, "64 is not between 1 and 28"},
		{Config{URL: nowhere, BinaryLadder: BinaryLadder{Levels: -1}}, "binaryladder.levels"},
		{Config{URL: nowhere, BinaryLadder: BinaryLadder{Tick: time.Microsecond}}, "binaryladder.tick"},
		{Config{URL: nowhere, BinaryLadder: BinaryLadder{Routing: "magic"}}, "neither source nor topic"},
		{Config{URL: nowhere, BinaryLadder: BinaryLadder{Routing: "topic", BitsPerLevel: 2}}, "needs routing: source"},
		{Config{URL: nowhere, BinaryLadder: BinaryLadder{Levels: 28, Tick: 3 * time.Second}}, "ten years"},
		{Config{URL: nowhere, Backend: "fixedtiers", FixedTiers: FixedTiers{Tiers: []time.Duration{1}}}, "open fixedtiers.tiers: invalid configuration: 1ns is not"},
		{Config{URL: nowhere, Backend: "fixedtiers", FixedTiers: FixedTiers{Overflow: "early"}}, "early needs queue_type: classic"},
		{Config{URL: nowhere, Backend: "controller", Controller: Controller{Levels: 29}}, "open controller.levels"},
	} {
		d, err := Open(context.Background(), c.cfg)
		require.Nil(t, d)
		require.ErrorIs(t, err, delayer.ErrConfig, "%+v", c.cfg)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "secret", "no error shows a password")
	}

	_, err := Open(context.Background(), Config{URL: nowhere})
	require.ErrorIs(t, err, delayer.ErrUnavailable)
	require.ErrorContains(t, err, "amqp://127.0.0.1:1/")
	require.ErrorContains(t, err, "is RabbitMQ running there")
	require.NotContains(t, err.Error(), "secret")
}
