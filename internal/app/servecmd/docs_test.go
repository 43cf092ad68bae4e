package servecmd

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer/internal/app/api"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/proxy"
	"github.com/delayer-go/delayer/internal/lab/docs"
)

// TestDocs_Keys: the tables of docs/languages.md have each key of the section serve, and no other.
func TestDocs_Keys(t *testing.T) {
	page := docs.Pages(t, "../../..")["docs/languages.md"]
	all := keys("", config{})
	require.Equal(t, "exchanges", all[0])
	for section, want := range map[string][]string{
		"serve":      append(keys("exchanges[].", entry.Spec{}), all[1:]...),
		"serve.http": keys("", api.Config{}),
		"serve.amqp": keys("", proxy.Config{}),
	} {
		_, table, found := strings.Cut(page, "| key of `"+section+"` |")
		require.True(t, found, section)
		table, _, _ = strings.Cut(table, "\n\n")
		var listed []string
		for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(table, -1) {
			for _, key := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
				listed = append(listed, key[1])
			}
		}
		require.ElementsMatch(t, want, listed, section)
	}
}

// keys are those of a section, each after a prefix.
func keys(prefix string, section any) (all []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(section)) {
		if f.IsExported() {
			all = append(all, prefix+f.Tag.Get("yaml"))
		}
	}
	return all
}

// TestParseConfig_Deploy: what deploy/ gives to serve can be served.
func TestParseConfig_Deploy(t *testing.T) {
	for _, path := range []string{"delayer.yaml", "compose.yaml", "package.yaml"} {
		text, err := os.ReadFile("../../../deploy/" + path)
		require.NoError(t, err)
		var alone struct {
			Configs struct{ Delayer struct{ Content string } }
		}
		require.NoError(t, yaml.Unmarshal(text, &alone))
		if path == "compose.yaml" {
			text = []byte(alone.Configs.Delayer.Content)
		}
		cfg, err := parseConfig(text)
		require.NoError(t, err, path)
		require.False(t, cfg.nothing(), path)
	}
}
