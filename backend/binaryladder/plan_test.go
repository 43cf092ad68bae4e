package binaryladder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/topology"
)

func mustLadder(t testing.TB, levels, bits int, tick time.Duration) ladder {
	t.Helper()
	l, err := newLadder(levels, bits, tick)
	require.NoError(t, err)
	return l
}

func TestHopsOfTheSeed(t *testing.T) {
	l := mustLadder(t, 4, 1, time.Second)
	require.Equal(t, []hop{{3, 1}, {1, 1}}, l.hops(10*time.Second), "10 s is 8 s and then 2 s")
	require.Equal(t, "~d.~1.~0.~1.~0.shop", l.topicKey(10*time.Second, "shop"))
	require.Equal(t, "~d.*.*.~1.#", l.topicPattern(1, 1))
	require.Equal(t, "~d.~0.#", l.topicPattern(3, 0))
	require.Equal(t, 15*time.Second, l.max())
	require.Equal(t, 268_435_455*time.Second, mustLadder(t, 28, 1, time.Second).max(), "28 levels: 8.5 years")
}

func TestHopsOfDigits(t *testing.T) {
	l := mustLadder(t, 6, 6, time.Millisecond)
	require.Equal(t, []hop{{1, 20}, {0, 20}}, l.hops(1300*time.Millisecond), "1300 = 20·64 + 20")
	require.Equal(t, 1280*time.Millisecond, l.ttl(hop{1, 20}))
	require.Equal(t, time.Duration(1<<36-1)*time.Millisecond, l.max(), "two years to the millisecond")
}

func TestRoundingUp(t *testing.T) {
	l := mustLadder(t, 4, 1, time.Second)
	for delay, ticks := range map[time.Duration]int64{1: 1, time.Second: 1, time.Second + 1: 2, 0: 0, 15 * time.Second: 15} {
		require.Equal(t, ticks, l.ticks(delay), "%v", delay)
	}
}

// For any ladder and any delay within it.
func TestHopsAddUpToTheDelayRoundedUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := newLadder(rapid.IntRange(1, 28).Draw(t, "levels"), rapid.IntRange(1, 6).Draw(t, "bits"),
			time.Duration(rapid.Int64Range(1, 100_000).Draw(t, "tick_ms"))*time.Millisecond)
		if err != nil {
			t.Skip("not a ladder")
		}
		delay := time.Duration(rapid.Int64Range(1, int64(l.max())).Draw(t, "delay"))
		sum, level := time.Duration(0), l.levels
		for _, h := range l.hops(delay) {
			require.Less(t, h.level, level, "levels descend")
			require.True(t, h.value > 0 && h.value < l.base())
			require.LessOrEqual(t, l.ttl(h), topology.MaxTTL)
			level, sum = h.level, sum+l.ttl(h)
		}
		require.GreaterOrEqual(t, sum, delay, "never early")
		require.Less(t, sum-delay, l.tick, "late by less than a tick")
	})
}

func TestALadderThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		levels, bits int
		tick         time.Duration
		object, want string
	}{
		{0, 1, time.Second, "binaryladder.levels", "0 is not between 1 and 28"},
		{64, 1, time.Second, "binaryladder.levels", "64 is not between"},
		{-1, 1, time.Second, "binaryladder.levels", "-1"},
		{4, 0, time.Second, "binaryladder.bits_per_level", "0 is not between 1 and 6"},
		{4, 7, time.Second, "binaryladder.bits_per_level", "7"},
		{4, 1, 0, "binaryladder.tick", "0s is not a whole number of milliseconds"},
		{4, 1, -time.Second, "binaryladder.tick", "-1s"},
		{4, 1, 1500 * time.Microsecond, "binaryladder.tick", "1.5ms"},
		{28, 1, 3 * time.Second, "binaryladder.levels", "ten years, the longest x-message-ttl that RabbitMQ takes: use at most 27 levels"},
		{28, 6, time.Millisecond, "binaryladder.levels", "use at most 6 levels"},
		{1, 1, 20 * 365 * 24 * time.Hour, "binaryladder.levels", "use at most 0 levels"},
	} {
		_, err := newLadder(c.levels, c.bits, c.tick)
		require.ErrorIs(t, err, delayer.ErrConfig)
		require.ErrorContains(t, err, c.object)
		require.ErrorContains(t, err, c.want)
	}
}

func TestKeysOfAnItineraryAreOneWordAndDiffer(t *testing.T) {
	for _, l := range []ladder{mustLadder(t, 28, 1, time.Second), mustLadder(t, 6, 6, time.Millisecond)} {
		b := blueprint{ladder: l, names: names{"p"}, stage: delivery.NewStage("p", true)}
		seen := map[string]link{}
		for _, k := range allLinks(l) {
			key := b.key(k, 1)
			require.NotContains(t, key, ".")
			require.NotContains(t, seen, key, "%v and %v", k, seen[key])
			seen[key] = k
			require.Equal(t, 2, strings.Count(b.key(k, 3), "."), "as many words as asked for")
		}
	}
}

func allLinks(l ladder) []link {
	var out []link
	for from := outside; from < l.levels; from++ {
		if from != outside {
			out = append(out, link{from, hop{level: outside}})
		}
		for to := range l.levels {
			for value := 1; value < l.base() && (from == outside || to < from); value++ {
				out = append(out, link{from, hop{to, value}})
			}
		}
	}
	return out
}

func TestLinksHaveAnIndexEach(t *testing.T) {
	l := mustLadder(t, 6, 6, time.Millisecond)
	seen := map[int]link{}
	for _, k := range allLinks(l) {
		i := l.index(k)
		require.NotContains(t, seen, i, "%v and %v", k, seen[i])
		require.Less(t, i, l.links())
		seen[i] = k
	}
}

func TestConfigNamesEveryFieldThatMatters(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range []blueprint{
		{ladder: ladder{4, 1, time.Second}, names: names{"p"}, kind: delayer.Quorum, routing: Source},
		{ladder: ladder{5, 1, time.Second}, names: names{"p"}, kind: delayer.Quorum, routing: Source},
		{ladder: ladder{4, 2, time.Second}, names: names{"p"}, kind: delayer.Quorum, routing: Source},
		{ladder: ladder{4, 1, time.Minute}, names: names{"p"}, kind: delayer.Quorum, routing: Source},
		{ladder: ladder{4, 1, time.Second}, names: names{"p"}, kind: delayer.Classic, routing: Source},
		{ladder: ladder{4, 1, time.Second}, names: names{"p"}, kind: delayer.Quorum, routing: Topic},
	} {
		require.False(t, seen[b.config()], b.config())
		require.LessOrEqual(t, len(b.config()), 255, "it is an exchange's name")
		seen[b.config()] = true
	}
}

func ExampleConfig() {
	l, _ := newLadder(28, 1, time.Second)
	for _, h := range l.hops(90 * time.Minute) {
		fmt.Print(l.ttl(h), " ")
	}
	// Output: 1h8m16s 17m4s 4m16s 16s 8s
}
