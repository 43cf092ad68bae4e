package objects

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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

func TestDurationName(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"1m": time.Minute, "1m30s": 90 * time.Second, "100ms": 100 * time.Millisecond, "2h": 2 * time.Hour,
		"1s500ms": 1500 * time.Millisecond, "720h": 30 * 24 * time.Hour, "1h1ms": time.Hour + time.Millisecond,
	} {
		require.Equal(t, want, DurationName(d))
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, MaxTTL.Milliseconds()).Draw(t, "ms")) * time.Millisecond
		read, err := time.ParseDuration(DurationName(d))
		require.NoError(t, err)
		require.Equal(t, d, read)
		require.NotContains(t, DurationName(d), ".", "a dot separates the words of a key")
	})
}

// TestDifference: a conflict names the setting that differs.
func TestDifference(t *testing.T) {
	for now, want := range map[string]string{
		"p:source,calendar:127:aa,tick=1ms,quorum": ": tick=1s is not tick=1ms",
		"p:source,list:4:bb,tick=1s,quorum":        ": calendar:64:9f is not list:4:bb",
		"p:source,calendar:64:9f,tick=1s,quorum":   "",
		"p:controller":                             "",
	} {
		require.Equal(t, want, difference("p:source,calendar:64:9f,tick=1s,quorum", now), now)
	}
}
