package binaryladder

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// FuzzLadder: a ladder that is accepted leads any delay within it over hops that add up to it, and with one bit a level
// the topic key says the same hops.
func FuzzLadder(f *testing.F) {
	f.Add(28, 1, int64(time.Second), int64(90*time.Minute))
	f.Add(6, 6, int64(time.Millisecond), int64(1300*time.Millisecond))
	f.Add(64, 7, int64(-1), int64(-1))
	f.Add(1, 1, int64(1<<62), int64(1<<62))
	f.Fuzz(func(t *testing.T, levels, bits int, tick, delay int64) {
		l, err := newLadder(levels, bits, time.Duration(tick))
		if err != nil {
			require.ErrorIs(t, err, delayer.ErrConfig)
			return
		}
		require.Positive(t, l.max())
		if delay < 0 || time.Duration(delay) > l.max() {
			return
		}
		sum, seen := time.Duration(0), map[hop]bool{}
		for _, h := range l.hops(time.Duration(delay)) {
			require.False(t, seen[h], "no queue twice")
			seen[h] = true
			sum += l.ttl(h)
		}
		require.Equal(t, time.Duration(l.ticks(time.Duration(delay)))*l.tick, sum)
		if bits == 1 {
			require.Equal(t, seen, spelled(t, l, l.topicKey(time.Duration(delay), "d.e")))
		}
	})
}

// spelled are the hops of a topic key.
func spelled(t *testing.T, l ladder, key string) map[hop]bool {
	t.Helper()
	words := strings.Split(key, ".")
	require.Equal(t, []string{"~d", "d", "e"}, []string{words[0], words[len(words)-2], words[len(words)-1]})
	require.Len(t, words, l.levels+3)
	hops := map[hop]bool{}
	for i, word := range words[1 : 1+l.levels] {
		if word == "~1" {
			hops[hop{l.levels - 1 - i, 1}] = true
		} else {
			require.Equal(t, "~0", word)
		}
	}
	return hops
}
