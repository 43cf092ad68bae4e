package wheel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noon is a time of the broker's.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestWheel_Default(t *testing.T) {
	w := Default()
	require.Len(t, w.Slots(), 127)
	for i, l := range w {
		require.GreaterOrEqual(t, l.linger(), 80*time.Second, "%s: what a process wrote that is gone may come late", l.Name)
		require.Less(t, l.Lead+l.Width+l.linger(), time.Duration(l.Slots)*l.Width, "%s: consumed for one turn at a time", l.Name)
		if i == 0 {
			require.LessOrEqual(t, l.Reach, longestHeld, "a message of the first level is always held")
			require.GreaterOrEqual(t, l.linger(), keptFor+rememberedFor/2, "changes are in hand until then")
			continue
		}
		// What is due in a turn is within reach of the level below when its slot is opened. By then
		// the last change for it was confirmed that was placed here. Both clocks may be a second
		// off.
		below := w[i-1].Reach
		require.GreaterOrEqual(t, below, l.Width+l.Lead+WrittenWithin+2*time.Second, "%s", l.Name)
	}
}

func TestWheel_Place(t *testing.T) {
	w := Default()
	for _, c := range []struct {
		delay time.Duration
		level int
		begin time.Duration // of the turn, after noon
	}{
		{-time.Hour, 0, 0},
		{0, 0, 0},
		{time.Millisecond, 0, 0},
		{3999 * time.Millisecond, 0, 0},
		{4 * time.Second, 0, 4 * time.Second},
		{122 * time.Second, 0, 2 * time.Minute},
		{122*time.Second + time.Millisecond, 1, 2 * time.Minute},
		{31 * time.Minute, 1, 31 * time.Minute},
		{32 * time.Minute, 2, 20 * time.Minute},
		{155 * time.Minute, 2, 140 * time.Minute},
		{3 * time.Hour, 3, 2 * time.Hour},
		{17*time.Hour + 30*time.Minute, 3, 16 * time.Hour},
		{36 * time.Hour, 4, 36 * time.Hour},
		{6 * 24 * time.Hour, 4, 6 * 24 * time.Hour},
	} {
		to := w.Place(noon, noon.Add(c.delay))
		require.Equal(t, c.level, to.Level, c.delay)
		require.Equal(t, noon.Add(c.begin).UnixMilli(), w.begin(to).UnixMilli(), c.delay)
	}
	far := w.Place(noon, time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC))
	require.Equal(t, w.at(4, noon.Add(6*24*time.Hour)), far, "it goes round the last level again")
	early := w.Place(time.UnixMilli(-1), time.UnixMilli(-1))
	require.Equal(t, Slot{0, 51}, w.Slot(early), "also before 1970")
}

func TestWheel_NoTurnIsMissedOrMixed(t *testing.T) {
	w := Default()
	for level, l := range w {
		turn := w.at(level, noon)
		again := Turn{level, turn.Number + int64(l.Slots)}
		require.Equal(t, w.Slot(turn), w.Slot(again))
		// The first who may write for the next turn finds the slot at rest.
		first := w.begin(again).Add(-l.Reach)
		require.Equal(t, w.closes(turn), first)
		require.Contains(t, w.Open(noon, noon), turn)
		require.Contains(t, w.Open(first.Add(-time.Millisecond), first), turn)
		require.NotContains(t, w.Open(first, first), turn)
		require.NotContains(t, w.Open(first, first), again)
		require.Contains(t, w.Open(w.opens(again), w.opens(again)), again)
		require.True(t, w.WriteBy(turn).Before(w.closes(turn)))
		require.True(t, w.WriteBy(turn).After(noon))
		require.Equal(t, again, w.Upcoming(w.Slot(turn), noon))
	}
	require.Equal(t, w.at(0, noon.Add(11*time.Second)), w.Upcoming(w.Slot(w.at(0, noon.Add(11*time.Second))), noon))
}

func TestWheel_OpenWithAnUncertainTime(t *testing.T) {
	w := Default()
	exact := w.Open(noon, noon)
	require.Subset(t, w.Open(noon.Add(-time.Second), noon.Add(time.Second)), exact)
	slots := map[Slot]bool{}
	for _, turn := range w.Open(noon.Add(-time.Hour), noon.Add(time.Hour)) {
		require.False(t, slots[w.Slot(turn)], "a slot is consumed once")
		slots[w.Slot(turn)] = true
	}
}

// TestRequest: what comes of a change by what came of its attempts.
func TestRequest(t *testing.T) {
	b := newTable(t)
	due := b.now().reckon(time.Minute)
	for name, c := range map[string]struct {
		took    time.Duration
		answers []Outcome
		forGood bool
		fate    Fate
	}{
		"confirmed":               {time.Second, []Outcome{Accepted}, false, Certain},
		"confirmed too late":      {56 * time.Second, []Outcome{Accepted}, false, Uncertain},
		"always slow":             {WrittenWithin + time.Second, []Outcome{Accepted, Accepted, Accepted}, false, Uncertain},
		"unknown, then confirmed": {time.Second, []Outcome{Unknown, Accepted}, false, Certain},
		"unknown, then refused":   {time.Second, []Outcome{Unknown, Refused}, true, Uncertain},
		"refused for good":        {time.Second, []Outcome{Refused}, true, Unsent},
		"refused again and again": {time.Second, []Outcome{Refused, Refused, Refused}, false, Unsent},
		"refused, then confirmed": {time.Second, []Outcome{Refused, Accepted}, false, Certain},
	} {
		b.mono = 0
		r := Default().Request(due)
		for i, o := range c.answers {
			_, _, inTime := r.Begin(b.now())
			require.True(t, inTime, name)
			b.mono += c.took
			fate, again := r.Ended(b.now(), o, c.forGood && o == Refused)
			require.Equal(t, i < len(c.answers)-1, again, name)
			if !again {
				require.Equal(t, c.fate, fate, name)
			}
		}
	}
	b.mono = 56 * time.Second
	_, _, inTime := Default().Request(due).Begin(b.now())
	require.False(t, inTime)
}
