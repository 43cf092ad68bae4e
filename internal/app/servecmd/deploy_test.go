package servecmd

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParseConfig_Deploy: what deploy/ gives to serve can be served.
func TestParseConfig_Deploy(t *testing.T) {
	for _, path := range []string{"delayer.yaml", "kubernetes/delayer.yaml"} {
		text, err := os.ReadFile("../../../deploy/" + path)
		require.NoError(t, err)
		cfg, err := parseConfig(text)
		require.NoError(t, err, path)
		require.NotEmpty(t, cfg.Exchanges, path)
		require.NotEmpty(t, cfg.HTTP.Tokens, path)
	}
}
