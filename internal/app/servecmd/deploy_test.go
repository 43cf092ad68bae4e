package servecmd

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

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
