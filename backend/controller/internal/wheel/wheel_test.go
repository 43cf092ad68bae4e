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
	require.Len(t, w.Slots(), 236)
	for i, l := range w {
		require.GreaterOrEqual(t, l.linger(), 36*time.Second, "%s: a consumer's machine may be gone for longer", l.Name)
		require.Less(t, l.Lead+l.Width+l.linger(), time.Duration(l.Slots)*l.Width, "%s: consumed for one turn at a time", l.Name)
		if i+1 < len(w) {
			next := w[i+1]
			require.GreaterOrEqual(t, l.Reach, next.Width+next.Lead, "%s does not take all of a slot of %s", l.Name, next.Name)
		}
		if i > 0 {
			require.GreaterOrEqual(t, l.linger(), 15*time.Minute, "%s: a straggler waits for a rotation", l.Name)
		}
	}
	require.LessOrEqual(t, time.Duration(w[0].Slots)*w[0].Width-w[0].Width-w[0].linger()-w[0].Lead, 150*time.Second,
		"where the ring is short, a straggler waits no longer than this for the next turn")
}

func TestWheel_Place(t *testing.T) {
	w := Default()
	for _, c := range []struct {
		delay time.Duration
		level int
		begin time.Duration // of the turn, after noon
	}{
		{-time.Hour, 0, 0}, {0, 0, 0}, {time.Millisecond, 0, 0}, {2999 * time.Millisecond, 0, 0}, {3 * time.Second, 0, 3 * time.Second},
		{150 * time.Second, 0, 150 * time.Second}, {150*time.Second + time.Millisecond, 1, 2 * time.Minute},
		{75 * time.Minute, 1, 75 * time.Minute}, {76 * time.Minute, 2, time.Hour}, {27 * time.Hour, 2, 27 * time.Hour},
		{36 * time.Hour, 3, 36 * time.Hour}, {30 * 24 * time.Hour, 3, 29*24*time.Hour + 12*time.Hour},
	} {
		to := w.Place(noon, noon.Add(c.delay))
		require.Equal(t, c.level, to.Level, c.delay)
		require.Equal(t, noon.Add(c.begin).UnixMilli(), w.begin(to).UnixMilli(), c.delay)
	}
	far := w.Place(noon, time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC))
	require.Equal(t, w.at(4, noon.Add(300*24*time.Hour)), far, "it goes round the last level again")
	early := w.Place(time.UnixMilli(-1), time.UnixMilli(-1))
	require.Equal(t, Slot{0, 63}, w.Slot(early), "also before 1970")
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
	require.Equal(t, w.at(0, noon.Add(7*time.Second)), w.Upcoming(w.Slot(w.at(0, noon.Add(7*time.Second))), noon))
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

func TestWheel_Next(t *testing.T) {
	w := Default()
	seconds, minutes, hours := w.at(0, noon), w.at(1, noon), w.at(2, noon)
	later := Turn{1, minutes.Number + 96}
	type result struct {
		step Step
		to   Turn
	}
	for _, c := range []struct {
		name      string
		visit     Visit
		remaining time.Duration
		want      result
	}{
		{"due", Visit{Turn: seconds, Fits: true}, 0, result{step: Deliver}},
		{"overdue", Visit{Turn: hours}, -time.Hour, result{step: Deliver}},
		{"soon", Visit{Turn: minutes}, 3 * time.Second, result{step: Hold}},
		{"in this minute, which fits", Visit{Turn: minutes, Fits: true}, 50 * time.Second, result{step: Hold}},
		{"in this minute, which does not", Visit{Turn: minutes}, 50 * time.Second, result{Move, w.at(0, noon.Add(50*time.Second))}},
		{"in this hour", Visit{Turn: hours, Fits: true}, 50 * time.Minute, result{Move, w.at(1, noon.Add(50*time.Minute))}},
		{"of this slot's next turn", Visit{Turn: minutes, Fits: true}, 96 * time.Minute, result{Move, w.at(2, noon.Add(96*time.Minute))}},
		{"a slot that is at rest", Visit{Turn: later, Resting: true, Fits: true}, 96 * time.Minute, result{step: Leave}},
		{"overdue in a slot that is at rest", Visit{Turn: later, Resting: true, Fits: true}, -time.Minute, result{step: Deliver}},
		{"misplaced in a slot that is at rest", Visit{Turn: later, Resting: true, Fits: true}, 20 * time.Minute, result{Move, w.at(1, noon.Add(20*time.Minute))}},
	} {
		step, to := w.Next(c.visit, noon, noon.Add(c.remaining))
		require.Equal(t, c.want, result{step, to}, c.name)
	}
	past := Turn{1, minutes.Number - 30} // not drained before its next turn is written
	step, _ := w.Next(Visit{Turn: past}, noon, noon.Add(66*time.Minute))
	require.Equal(t, Leave, step)
	own := w.at(0, noon.Add(4*time.Second)) // consumed early, since the time is uncertain
	step, _ = w.Next(Visit{Turn: own}, noon.Add(-time.Second), noon.Add(5*time.Second))
	require.Equal(t, Hold, step)
}

// FuzzWheel follows a message from the slot of its publisher to its destination.
func FuzzWheel(f *testing.F) {
	f.Add(noon.UnixMilli(), int64(1), false)
	f.Add(noon.UnixMilli(), int64(200*365*24*time.Hour/time.Millisecond), true)
	f.Add(int64(-1), int64(90_000), false)
	f.Fuzz(func(t *testing.T, nowMillis, delayMillis int64, fits bool) {
		const century = int64(100 * 365 * 24 * time.Hour / time.Millisecond)
		w, now := Default(), time.UnixMilli(nowMillis%century)
		due := now.Add(time.Duration(max(0, delayMillis)%(2*century)) * time.Millisecond)
		at := w.Place(now, due)
		for hop := 0; ; hop++ {
			require.Less(t, hop, 400, "it does not end")
			require.False(t, w.begin(at).After(due), "its slot begins after it is due")
			require.Less(t, w.Slot(at).Index, w[at.Level].Slots)
			require.Contains(t, w.Open(w.opens(at), w.opens(at)), at)
			if opens := w.opens(at); opens.After(now) {
				require.Equal(t, w.Slot(at), w.Slot(w.Upcoming(w.Slot(at), now)))
				now = opens
			}
			step, to := w.Next(Visit{Turn: at, Fits: fits}, now, due)
			switch step {
			case Hold:
				require.LessOrEqual(t, due.Sub(now), held)
				return
			case Deliver:
				require.False(t, due.After(now), "early")
				return
			case Leave:
				require.Fail(t, "it is left in a slot that has its turn")
			}
			require.NotEqual(t, w.Slot(at), w.Slot(to))
			require.LessOrEqual(t, to.Level, at.Level)
			at = to
		}
	})
}

// TestWheel_Serves: from when a message can be written into a slot until the slot is at rest, its turn
// is the one that a reader of lengths tells.
func TestWheel_Serves(t *testing.T) {
	w := Default()
	for level, l := range w {
		for _, offset := range []time.Duration{0, l.Width / 2, l.Width * time.Duration(l.Slots) / 3} {
			turn := w.at(level, noon.Add(offset))
			begin := w.begin(turn)
			for _, now := range []time.Time{begin.Add(-l.Reach), begin.Add(-l.Lead), begin, begin.Add(l.Width), w.closes(turn).Add(-time.Millisecond)} {
				from, to := w.Serves(w.Slot(turn), now)
				require.Equal(t, begin.UnixMilli(), from.UnixMilli(), "%s at %v", l.Name, now)
				require.Equal(t, l.Width, to.Sub(from))
			}
			from, _ := w.Serves(w.Slot(turn), w.closes(turn))
			require.Equal(t, time.Duration(l.Slots)*l.Width, from.Sub(begin), "the next turn")
		}
	}
}
