package brokertime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestSteps_Shift(t *testing.T) {
	s := Steps{
		{time.Hour, noon.Add(NoticedWithin)}, // at noon by the clock of before
		{time.Minute, noon.Add(3*time.Hour + NoticedWithin)},
	}
	for since, want := range map[time.Duration]time.Duration{
		-time.Minute:                time.Hour + time.Minute,
		time.Minute:                 time.Hour + time.Minute, // its publisher did not know yet
		time.Hour:                   time.Minute,             // it knew
		3 * time.Hour:               time.Minute,
		3*time.Hour + 3*time.Minute: 0,
	} {
		require.Equal(t, want, s.Shift(noon.Add(since)), since)
	}
	require.Zero(t, Steps(nil).Shift(noon))
}

func TestSteps_AreNotTooMany(t *testing.T) {
	var s Steps
	for i := range 3 * mostSteps {
		s = s.with(Step{time.Second, noon.Add(time.Duration(i) * time.Hour)})
	}
	require.Len(t, s, mostSteps)
	require.Equal(t, 3*mostSteps*time.Second, s.Shift(noon.Add(-time.Hour)), "nothing is forgotten")
	var slewed Steps
	for i := range 20 {
		slewed = slewed.with(Step{10 * time.Millisecond, noon.Add(time.Duration(i) * time.Second)})
	}
	require.Equal(t, Steps{{200 * time.Millisecond, noon.Add(19 * time.Second)}}, slewed)
}

// TestHistory_OneStepSeenByMany: each process sees the same step, to other milliseconds, and
// records what is missing.
func TestHistory_OneStepSeenByMany(t *testing.T) {
	var a, b, late history
	a.step(time.Hour+time.Second, noon)
	require.Equal(t, Steps{{time.Hour + time.Second, noon}}, a.steps(), "at once")
	require.Empty(t, a.settled(), "it is still being measured")
	a.refine(time.Hour + 3*time.Millisecond)
	a.refine(time.Hour + 5*time.Millisecond)
	a.settle()
	b.step(time.Hour+4*time.Millisecond, noon.Add(5*time.Second))
	b.settle()

	one, two := a.settled(), b.settled()
	require.Equal(t, Steps{{time.Hour + 3*time.Millisecond, noon}}, one)
	for _, h := range []*history{&a, &b, &late} {
		h.read(one)
		h.read(two)
	}
	late.began() // it looks at the clock after it has read
	for _, h := range []*history{&a, &b, &late} {
		h.read(one) // an old one
		require.Equal(t, two, h.settled(), "what was seen by who saw more")
		require.Equal(t, two, h.steps())
	}
	late.step(time.Minute, noon.Add(time.Hour))
	require.Equal(t, time.Hour+time.Minute+4*time.Millisecond, late.steps().total())
}

// TestHistory_NoLessThanWhatWasSeen: whatever the order in which processes see steps and read
// records.
func TestHistory_NoLessThanWhatWasSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		processes := make([]history, rapid.IntRange(1, 4).Draw(t, "processes"))
		read := make([]int, len(processes))
		var log []Steps
		var sum time.Duration
		now := noon
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			i := rapid.IntRange(0, len(processes)-1).Draw(t, "who")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0: // all see a step, each a bit more than it was
				by := between(t, "by", 10*time.Millisecond, time.Hour)
				sum += by
				now = now.Add(time.Minute + by)
				for p := range processes {
					processes[p].step(by+between(t, "more", 0, time.Second), now.Add(NoticedWithin))
				}
			case 1:
				processes[i].settle()
			case 2:
				log = append(log, processes[i].settled())
			case 3:
				for ; read[i] < len(log); read[i]++ {
					processes[i].read(log[read[i]])
				}
			}
			for p := range processes {
				if got := processes[p].steps().Shift(noon); got < sum {
					t.Fatalf("process %d shifts by %v, the clock was set by %v", p, got, sum)
				}
			}
		}
	})
}

// TestHistory_RecordedLate: a step before this process began is recorded after that, and another
// follows.
func TestHistory_RecordedLate(t *testing.T) {
	var h history
	h.began()
	h.read(Steps{{time.Hour, noon}})
	h.verified()
	h.verified()
	h.step(time.Minute, noon.Add(2*time.Hour))
	require.Equal(t, time.Hour+time.Minute, h.steps().total())
	var sees history // the same step itself, after it has read the record
	sees.read(Steps{{time.Hour, noon}})
	sees.step(time.Hour, noon)
	sees.settle()
	sees.verified()
	sees.verified()
	require.Equal(t, time.Hour, sees.steps().total())
}
