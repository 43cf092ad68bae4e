package fixedtiers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConfig_Prefix: tiers of different prefixes never meet.
func TestConfig_Prefix(t *testing.T) {
	for _, c := range []struct{ prefix, tiers, want string }{
		{"delayer", "", "delay"},
		{"shop", "", "shop.delay"},
		{"shop", "mine", "mine"},
	} {
		require.Equal(t, c.want, Config{Prefix: c.tiers}.withDefaults(c.prefix).Prefix)
	}
	require.Equal(t, Default(), Config{}.withDefaults("delayer"))
}
