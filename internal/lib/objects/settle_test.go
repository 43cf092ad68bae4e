package objects

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestSettleName begins with the queue's name and is one that a broker takes.
func TestSettleName(t *testing.T) {
	require.Equal(t, "orders.parked.settle.X", settleName("orders.parked", "X"))
	for _, long := range []string{strings.Repeat("q", 255), strings.Repeat("ü", 127)} {
		name := settleName(long, strings.Repeat("X", 26))
		require.LessOrEqual(t, len(name), 255)
		require.True(t, utf8.ValidString(name))
		require.True(t, strings.HasPrefix(name, long[:200]))
	}
}
