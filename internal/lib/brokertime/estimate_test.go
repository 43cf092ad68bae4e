package brokertime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Clocks are those of a broker and of a machine that asks it.
type clocks struct {
	mono   time.Duration // of the machine
	wall   time.Time     // of the machine
	broker time.Duration // since 1970
	ppm    int           // by which the broker's clock is fast

	estimate estimate
}

func newClocks(skew time.Duration, ppm int) *clocks {
	wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &clocks{wall: wall, broker: time.Duration(wall.UnixNano()) + skew, ppm: ppm}
}

func (w *clocks) pass(d time.Duration) {
	w.mono += d
	w.wall = w.wall.Add(d)
	w.broker += d + d*time.Duration(w.ppm)/1_000_000
}

// suspend lets time pass without the machine's monotonic clock.
func (w *clocks) suspend(d time.Duration) {
	mono := w.mono
	w.pass(d)
	w.mono = mono
}

func (w *clocks) now() instant { return instant{mono: w.mono, wall: w.wall} }

// ask asks one question, now. The broker dates it after there.
func (w *clocks) ask(there, back time.Duration) (stepped time.Duration) {
	sent := w.now()
	w.pass(there)
	second := w.second()
	w.pass(back)
	return w.estimate.learn(sent, w.now(), second, second.Add(time.Second))
}

// second is what the broker's clock shows.
func (w *clocks) second() time.Time { return time.Unix(0, int64(w.broker)).Truncate(time.Second) }

// await waits until the next question is to be asked.
func (w *clocks) await() { w.pass(w.estimate.next(w.now()) - w.mono) }

// within reports whether the truth is within the bounds.
func (w *clocks) within() bool {
	b, _ := w.estimate.now(w.now())
	offset := w.broker - w.mono
	return b.lo <= offset && offset <= b.hi
}

func (w *clocks) known() bool {
	_, ok := w.estimate.now(w.now())
	return ok
}

func (w *clocks) holds() bool { return w.known() && w.within() }

func (w *clocks) width() time.Duration {
	b, _ := w.estimate.now(w.now())
	return b.width()
}

// TestEstimate_Sound: whatever the skew, the drift and the network, and whatever is lost.
func TestEstimate_Sound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newClocks(between(t, "skew", -time.Hour, time.Hour), rapid.IntRange(-199, 199).Draw(t, "ppm"))
		slowest := between(t, "slowest", 0, 3*time.Second)
		for range rapid.IntRange(1, 60).Draw(t, "questions") {
			w.await()
			if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
				w.pass(askTimeout + retryAfter)
				continue
			}
			if stepped := w.ask(between(t, "there", 0, slowest), between(t, "back", 0, slowest)); stepped != 0 {
				t.Fatalf("it contradicts itself by %v", stepped)
			}
			w.pass(between(t, "later", 0, 30*time.Second))
			if !w.holds() {
				t.Fatalf("offset %v, known %+v", w.broker-w.mono, w.estimate)
			}
		}
	})
}

func between(t *rapid.T, name string, least, most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, name))
}

// TestEstimate_Narrows: after 16 questions the truth is known to two round trips, a millisecond and
// what drift adds, and stays so.
func TestEstimate_Narrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newClocks(between(t, "skew", -time.Hour, time.Hour), rapid.IntRange(-199, 199).Draw(t, "ppm"))
		there, back := between(t, "there", 0, 50*time.Millisecond), between(t, "back", 0, 50*time.Millisecond)
		began := w.mono
		for i := range 60 {
			w.await()
			w.ask(there, back)
			if i >= mostHalvings && w.width() > fine+2*(there+back)+5*time.Millisecond {
				t.Fatalf("question %d: still %v wide", i, w.width())
			}
			if w.estimate.turn != halve && began >= 0 {
				if took := w.mono - began; took > (mostHalvings+1)*time.Second {
					t.Fatalf("it took %v", took)
				}
				began = -1
			}
		}
		if !w.holds() {
			t.Fatal("it is wrong")
		}
	})
}

// TestEstimate_BrokersClockIsSet: that is noticed once the interval is fine and both ends were
// verified, at the latest.
func TestEstimate_BrokersClockIsSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newClocks(0, rapid.IntRange(-199, 199).Draw(t, "ppm"))
		there, back := between(t, "there", 0, 10*time.Millisecond), between(t, "back", 0, 10*time.Millisecond)
		for range rapid.IntRange(1, 40).Draw(t, "before") {
			w.await()
			w.ask(there, back)
		}
		w.await()
		known := w.width()
		by := between(t, "by", 10*time.Millisecond+6*(there+back)+known, time.Hour)
		if rapid.Bool().Draw(t, "back in time") {
			by = -by
		}
		w.broker += by
		var noticed time.Duration
		const longest = mostHalvings + 5
		for i := 0; i < longest && (noticed == 0 || !w.holds()); i++ {
			w.await()
			noticed += w.ask(there, back)
		}
		if !w.holds() {
			t.Fatalf("set by %v, noticed %v, known before to %v: %+v", by, noticed, known, w.estimate)
		}
	})
}

// TestEstimate_MachineSuspended: the wall clock shows that time has passed.
func TestEstimate_MachineSuspended(t *testing.T) {
	w := newClocks(time.Minute, 100)
	for range 20 {
		w.await()
		w.ask(time.Millisecond, time.Millisecond)
	}
	w.suspend(30 * time.Second)
	require.True(t, w.within(), "nobody was asked since")
	require.Greater(t, w.width(), 30*time.Second)
	require.False(t, w.known(), "which is of no use")
	require.Equal(t, w.mono, w.estimate.next(w.now()), "at once")
	require.Zero(t, w.ask(time.Millisecond, time.Millisecond), "it was not the broker")
	require.True(t, w.holds())
	require.Less(t, w.width(), 2*time.Second)

	sent, second := w.now(), w.second()
	w.suspend(time.Second) // while the answer is on its way
	w.estimate.learn(sent, w.now(), second, second.Add(time.Second))
	require.True(t, w.within())
	w.ask(time.Millisecond, time.Millisecond)
	require.True(t, w.holds())

	w.pass(staleAfter)
	require.True(t, w.holds(), "drift alone")
	w.pass(1)
	require.False(t, w.known(), "stale")
}

// TestEstimate_MachinesClockIsSet does not matter, but who can tell it from having been suspended?
func TestEstimate_MachinesClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Second, 30 * time.Second} {
		w := newClocks(-time.Minute, 0)
		for range 20 {
			w.await()
			w.ask(time.Millisecond, time.Millisecond)
		}
		w.wall = w.wall.Add(by)
		require.True(t, w.within())
		require.Equal(t, by == time.Second, w.known())
		for range 20 {
			w.await()
			require.Zero(t, w.ask(time.Millisecond, time.Millisecond))
			require.True(t, w.holds())
		}
		require.Less(t, w.width(), 10*time.Millisecond, by)
	}
}

// TestEstimate_SlowNetwork: it rests although the interval never becomes fine.
func TestEstimate_SlowNetwork(t *testing.T) {
	w := newClocks(0, 0)
	w.ask(0, 0) // the shortest
	rested := false
	for range 2 * mostHalvings {
		w.await()
		w.ask(time.Second, time.Second)
		rested = rested || w.estimate.resting
	}
	require.True(t, rested)
	require.True(t, w.holds())
}

// TestInterval: what questions tell of a clock that is ahead by an hour.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = time.Hour
		i := NewInterval()
		_, ok := i.Read()
		require.False(t, ok)
		ask := func(below, above time.Duration) time.Duration {
			sent := time.Now()
			time.Sleep(2 * time.Millisecond)
			shows := time.Now().Add(ahead)
			return i.Learn(sent, time.Now(), shows.Add(-below), shows.Add(above))
		}
		require.Zero(t, ask(time.Hour, time.Hour))
		r, ok := i.Read()
		require.False(t, ok, "too wide to be used")
		require.Less(t, r.Latest.Sub(r.Earliest), 3*time.Hour, "but a beginning")
		require.Zero(t, ask(10*time.Millisecond, 20*time.Millisecond))
		require.Zero(t, ask(time.Millisecond, time.Millisecond))
		r, ok = i.Read()
		require.True(t, ok)
		require.Less(t, r.Latest.Sub(r.Earliest), 5*time.Millisecond)
		require.Equal(t, 2*time.Millisecond, i.RoundTrip())
		truth := time.Now().Add(ahead)
		require.False(t, r.Earliest.After(truth) || r.Latest.Before(truth))

		due, ok := i.At(time.Now().Add(time.Second), time.Now())
		require.True(t, ok)
		require.WithinRange(t, due, truth.Add(time.Second), truth.Add(time.Second+5*time.Millisecond))
		require.InDelta(t, time.Minute, ask(-time.Minute, time.Minute+time.Millisecond), float64(10*time.Millisecond), "the clock was set")
		time.Sleep(intervalStale + 1)
		_, ok = i.Read()
		require.False(t, ok, "stale")
	})
}

// TestSteady: what is known to be exact all at once takes effect bit by bit.
func TestSteady(t *testing.T) {
	var s Steady
	require.Equal(t, time.Second, s.Ahead(time.Second, 0))
	require.Equal(t, 900*time.Millisecond, s.Ahead(0, 200*time.Millisecond), "at half the pace of time")
	require.Equal(t, time.Second, s.Ahead(time.Second, 200*time.Millisecond))
	require.Equal(t, -time.Hour, s.Ahead(-time.Hour, 300*time.Millisecond), "it was set")
}
