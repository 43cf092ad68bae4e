package backend

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer"
)

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
