package plugin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/plugin"
)

func TestBadConfiguration(t *testing.T) {
	for exchange, says := range map[string]string{
		strings.Repeat("x", 256): "256 bytes",
		"delayer.delivery":       `begin with "delayer."`,
	} {
		opts := delayer.Options{Prefix: "delayer"}
		_, err := plugin.Open(t.Context(), plugin.Config{Options: opts, Exchange: exchange})
		require.ErrorIs(t, err, delayer.ErrConfig)
		require.ErrorContains(t, err, says)
		_, err = plugin.Topology(plugin.Config{Options: opts, Exchange: exchange})
		require.ErrorIs(t, err, delayer.ErrConfig)
	}
}

func TestTopology(t *testing.T) {
	var b strings.Builder
	d, err := plugin.Topology(plugin.Config{Options: delayer.Options{Prefix: "delayer"}})
	require.NoError(t, err)
	require.NoError(t, d.WriteText(&b))
	assert.Contains(t, b.String(), "exchange  delayer.plugin.wait  x-delayed-message  x-delayed-type=fanout\n")
	assert.Contains(t, b.String(), "binding   delayer.plugin.wait -> exchange delayer.delivery")
	assert.NotContains(t, b.String(), "delayer.discard")
	limits, err := plugin.Limits(plugin.Config{})
	require.NoError(t, err)
	assert.True(t, limits.KeepsUnroutable)

	d, err = plugin.Topology(plugin.Config{Options: delayer.Options{Prefix: "delayer"}, Exchange: "theirs"})
	require.NoError(t, err)
	assert.Empty(t, d)
	limits, err = plugin.Limits(plugin.Config{Exchange: "theirs"})
	require.NoError(t, err)
	assert.False(t, limits.KeepsUnroutable)
}
