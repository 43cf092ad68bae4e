package binaryladder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfig_Defaults(t *testing.T) {
	require.Equal(t, Default(), Config{}.withDefaults())
	wide := Config{BitsPerLevel: 6}.withDefaults()
	require.Equal(t, Config{Levels: 4, BitsPerLevel: 6, Tick: time.Second, Routing: Source}, wide)
}
