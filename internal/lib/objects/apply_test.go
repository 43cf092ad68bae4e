package objects

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSoon: a stream that is absent for a moment is waited for, and nothing else.
func TestSoon(t *testing.T) {
	absent := &amqp091.Error{Code: amqp091.NotFound, Reason: "NOT_FOUND - home node 'a' of durable queue 'q' in vhost '/' is down or inaccessible"}
	missing := &amqp091.Error{Code: amqp091.NotFound, Reason: "NOT_FOUND - no queue 'q' in vhost '/'"}
	for name, c := range map[string]struct {
		errs []error // the last again and again
		took time.Duration
	}{
		"there":   {[]error{nil}, 0},
		"missing": {[]error{missing}, 0},
		"other":   {[]error{errors.New("x")}, 0},
		"starts":  {[]error{absent, absent, nil}, 2 * askEvery},
		"is down": {[]error{absent}, startsWithin},
		"is gone": {[]error{absent, missing}, askEvery},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, turn := time.Now(), 0
			err := soon(t.Context(), func() error {
				turn++
				return c.errs[min(turn, len(c.errs))-1]
			})
			require.Equal(t, c.errs[len(c.errs)-1], err, name)
			require.Equal(t, c.took, time.Since(began), name)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*askEvery/2)
		defer cancel()
		began := time.Now()
		require.Equal(t, absent, soon(ctx, func() error { return absent }))
		require.Equal(t, 3*askEvery/2, time.Since(began), "ctx has ended")
	})
}

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
