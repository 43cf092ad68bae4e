package pace

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDoubled(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 0, 1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 1 << 30: 10} {
		require.Equal(t, want, Doubled(1, 10, failures), failures)
	}
}

func TestBackoff(t *testing.T) {
	b := Backoff{First: time.Second, Longest: 4 * time.Second}
	for _, most := range []time.Duration{1, 2, 4, 4} {
		pause := b.Failed()
		require.LessOrEqual(t, pause, most*time.Second)
		require.GreaterOrEqual(t, pause, most*time.Second/2)
	}
	b.Reset()
	require.LessOrEqual(t, b.Failed(), time.Second)
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, Sleep(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, Sleep(ctx, time.Hour), context.DeadlineExceeded)
		require.Equal(t, time.Hour+time.Minute, time.Since(began))
	})
}

func TestSignal(t *testing.T) {
	s := NewSignal()
	s.Set()
	s.Set()
	<-s
	require.Empty(t, s)
}

func TestWarnings_OnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		var w Warnings
		for range 61 {
			w.Warn(log, "one")
			w.Warn(log, "other")
			time.Sleep(time.Second)
		}
		require.Equal(t, 2, strings.Count(text.String(), "msg=one"))
		require.Equal(t, 2, strings.Count(text.String(), "msg=other"))
	})
}

func TestPauses(t *testing.T) {
	p := Pauses[string]{First: time.Second, Longest: 4 * time.Second}
	now := time.Unix(0, 0)
	wait := func(k string, pause time.Duration, failures int) {
		t.Helper()
		gotPause, gotFailures := p.Wait(k, now)
		require.Equal(t, pause, gotPause)
		require.Equal(t, failures, gotFailures)
	}
	wait("a", 0, 0)
	p.Failed("a", now)
	p.Failed("a", now.Add(time.Second/2)) // it was sent before the pause
	wait("a", time.Second, 1)
	wait("b", 0, 0)
	now = now.Add(time.Second)
	wait("a", 0, 1)
	p.Failed("a", now)
	wait("a", 2*time.Second, 2)
	p.Succeeded("a")
	wait("a", 0, 0)
}

func TestPauses_Bounded(t *testing.T) {
	p := Pauses[int]{First: time.Second, Longest: time.Second}
	now := time.Unix(0, 0)
	for i := range 2 * mostPausing {
		p.Failed(i, now)
	}
	require.Len(t, p.of, mostPausing)
	p.Failed(-1, now.Add(time.Second))
	require.Len(t, p.of, 1)
}
