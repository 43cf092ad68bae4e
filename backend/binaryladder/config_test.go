package binaryladder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfig_Defaults(t *testing.T) {
	require.Equal(t, Default(), Config{}.withDefaults())
	require.Equal(t, Config{Tick: time.Minute, Routing: Topic, Steps: Binary}, Config{Tick: time.Minute, Routing: Topic}.withDefaults())
}
