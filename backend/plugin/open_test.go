package plugin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/plugin"
)

func TestTopology(t *testing.T) {
	var b strings.Builder
	d, err := plugin.Topology(delayer.Options{Prefix: "delayer"})
	require.NoError(t, err)
	require.NoError(t, d.WriteText(&b))
	assert.Contains(t, b.String(), "exchange  delayer.plugin.wait  x-delayed-message  x-delayed-type=fanout\n")
	assert.Contains(t, b.String(), "binding   delayer.plugin.wait -> exchange delayer.delivery")
	assert.NotContains(t, b.String(), "delayer.discard")
}
