package binaryladder

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// FuzzLadder: a ladder that is accepted leads any delay within it over steps that add up to it, and
// with binary steps the topic key says the same steps.
func FuzzLadder(f *testing.F) {
	f.Add("calendar", int64(time.Second), int64(90*time.Minute))
	f.Add("calendar", int64(23*time.Second), int64(time.Minute))
	f.Add("binary", int64(time.Millisecond), int64(1300*time.Millisecond))
	f.Add("1s,2s,4s,5s", int64(time.Second), int64(7*time.Second))
	f.Add("+45m,+1m1s", int64(100*time.Millisecond), int64(time.Hour+1))
	f.Add("1h,30m,30m", int64(30*time.Minute), int64(1<<62))
	f.Add("-,+", int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, steps string, tick, delay int64) {
		l, err := Steps(steps).ladder(time.Duration(tick))
		if err != nil {
			require.ErrorIs(t, err, delayer.ErrConfig)
			return
		}
		require.Positive(t, l.longest)
		if delay < 0 || time.Duration(delay) > l.longest {
			return
		}
		check(t, l, time.Duration(delay), false)
		if steps == string(Binary) {
			require.Equal(t, l.plan(nil, time.Duration(delay)), spelled(t, l, l.topicKey(time.Duration(delay), "d.e")))
		}
	})
}

// spelled are the steps of a topic key.
func spelled(t *testing.T, l *ladder, key string) (plan []int16) {
	t.Helper()
	words := strings.Split(key, ".")
	require.Equal(t, []string{"~d", "d", "e"}, []string{words[0], words[len(words)-2], words[len(words)-1]})
	require.Len(t, words, len(l.steps)+3)
	for i, word := range words[1 : 1+len(l.steps)] {
		if word == "~1" {
			plan = append(plan, int16(len(l.steps)-1-i))
		} else {
			require.Equal(t, "~0", word)
		}
	}
	return plan
}
