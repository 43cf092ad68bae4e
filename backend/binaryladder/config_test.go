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

// TestConfig_TopicLevels: as many levels as one likes, if each step is twice the one before.
func TestConfig_TopicLevels(t *testing.T) {
	for _, steps := range []Steps{Binary, "1s", "1s,2s", "8s,4s,2s,1s"} {
		l, err := Config{Tick: time.Second, Routing: Topic, Steps: steps}.ladder()
		require.NoError(t, err, steps)
		require.True(t, l.doubles())
	}
	for _, steps := range []Steps{Calendar, "1s,2s,3s", "1s,1500ms,2500ms", "1s,2s,4s,5s"} {
		_, err := Config{Tick: 500 * time.Millisecond, Routing: Topic, Steps: steps}.ladder()
		require.Error(t, err, steps)
	}
	_, err := Config{Tick: time.Second, Routing: Topic, Steps: "1s,2s,3s"}.ladder()
	require.ErrorContains(t, err, `"1s,2s,3s" needs routing: source`)
	require.ErrorContains(t, err, "must double from the tick on")
	all := Config{Tick: time.Second, Routing: Topic, Steps: "1s,2s,4s,8s"}
	l, err := all.ladder()
	require.NoError(t, err)
	require.Equal(t, 15*time.Second, l.longest)
}
