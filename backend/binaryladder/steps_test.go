package binaryladder

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func mustLadder(t testing.TB, tick time.Duration, steps Steps) ladder {
	t.Helper()
	l, err := steps.ladder(tick)
	require.NoError(t, err)
	return l
}

func TestSteps_Refused(t *testing.T) {
	for _, c := range []struct {
		tick  time.Duration
		steps Steps
		want  []string
	}{
		{time.Second, ",", []string{"an empty step"}},
		{time.Second, "1s,,2s", []string{"an empty step"}},
		{time.Second, "weekly", []string{`"weekly" is no duration such as 1s`}},
		{time.Second, "1s,60", []string{`"60" is no duration such as 1s, 250ms or 15m`}},
		{time.Second, "1s,0s", []string{"0s is not positive"}},
		{time.Second, "1s,-2s", []string{"-2s is not positive"}},
		{time.Second, "1s,500ms", []string{"500ms is shorter than the tick, 1s"}},
		{time.Second, "1s,2500ms", []string{"2500ms is no multiple of the tick, 1s"}},
		{time.Second, "1s,2s,120s,2m", []string{"2m is listed twice"}},
		{time.Second, "1s,87601h", []string{"87601h is longer than ten years"}},
		{time.Second, "1s,87600h", []string{"87600h is longer than ten years"}},
		{time.Second, "+45m,2m", []string{`"2m": either all steps have a plus, or none`}},
		{time.Second, "+45m,+45m", []string{"45m is listed twice"}},
		{time.Second, "calendar,+45m", []string{`"calendar" is no duration`, "stand alone"}},
		{time.Second, Steps(strings.Repeat("1s,", 1000)), []string{"1001 steps are more than 128"}},
		{time.Second, "2s", []string{"with a tick of 1s, 1s is no sum of steps of the list: add a step of 1s"}},
		{time.Second, "1s,2s,5s", []string{"4s is no sum of steps of the list: add a step of 4s"}},
		{time.Second, "1s,1h", []string{"2s is no sum of steps of the list: add a step of 2s"}},
		{7 * time.Second, Calendar, []string{"with a tick of 7s, 28s is no sum of steps of the calendar: add a step of 28s"}},
		{23 * time.Second, Calendar, []string{"binaryladder.tick", "no step of the calendar is a multiple of 23s"}},
		{5 * 365 * day, Calendar, []string{"binaryladder.tick", "no step of the calendar"}},
		{time.Microsecond, Calendar, []string{"binaryladder.tick", "1µs is not a whole number of milliseconds"}},
		{-time.Second, Calendar, []string{"binaryladder.tick"}},
		{11 * 365 * day, Binary, []string{"binaryladder.tick", "to ten years"}},
	} {
		_, err := c.steps.ladder(c.tick)
		require.ErrorIs(t, err, delayer.ErrConfig, "%.80s", c.steps)
		for _, want := range c.want {
			require.ErrorContains(t, err, want)
		}
	}
}

// Whatever an error says to add fixes the list.
func TestSteps_TheNamedStepFixesTheList(t *testing.T) {
	steps := Steps("1s,2s,1h")
	for range 20 {
		_, err := steps.ladder(time.Second)
		if err == nil {
			return
		}
		_, step, found := strings.Cut(err.Error(), "add a step of ")
		require.True(t, found, err)
		steps += Steps("," + strings.TrimSpace(step))
	}
	t.Fatal(steps)
}

func TestSteps_Added(t *testing.T) {
	calendar, more := mustLadder(t, time.Second, Calendar), mustLadder(t, time.Second, "+43m, +45m")
	require.Len(t, more.Waits, len(calendar.Waits)+1, "45m is a step already")
	require.Len(t, more.Plan(nil, 43*time.Minute), 1)
	require.Greater(t, len(calendar.Plan(nil, 43*time.Minute)), 1)
	require.NotEqual(t, blueprint{ladder: calendar}.config(), blueprint{ladder: more}.config())
}

func TestSteps_Ticks(t *testing.T) {
	for _, ms := range []int{1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500, 1000, 2000, 5000, 15_000, 60_000, 3_600_000} {
		tick := time.Duration(ms) * time.Millisecond
		l := mustLadder(t, tick, Calendar)
		require.LessOrEqual(t, len(l.Waits), 64+64)
		for d := tick; d < time.Second; d += tick {
			require.LessOrEqual(t, len(l.Plan(nil, d)), 2, "tick %v: %v", tick, d)
		}
		require.GreaterOrEqual(t, l.longest, 10*365*day-tick)
		require.Equal(t, tick, mustLadder(t, tick, Binary).Waits[0])
	}
}

// people are delays that people write.
var people = []time.Duration{
	1 * time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second,
	30 * time.Second, 45 * time.Second, 1 * time.Minute, 90 * time.Second, 2 * time.Minute, 3 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute, 45 * time.Minute, 1 * time.Hour, 90 * time.Minute,
	2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour,
	1 * day, 2 * day, 3 * day, 7 * day, 14 * day, 30 * day,
}

// TestCalendar_Hops holds calendar to what it is for: how many steps a delay takes on average.
func TestCalendar_Hops(t *testing.T) {
	l := mustLadder(t, time.Second, Calendar)
	require.Len(t, l.Waits, 64)
	between := func(from, to, step time.Duration) (delays []time.Duration) {
		for d := from; d <= to; d += step {
			delays = append(delays, d)
		}
		return delays
	}
	for _, c := range []struct {
		delays []time.Duration
		most   float64
	}{
		{people, 1.00},
		{between(time.Second, 15*time.Second, time.Second), 1.00},
		{between(time.Minute, 2*time.Minute, time.Second), 1.92},
		{between(time.Second, time.Hour, time.Second), 3.15},
		{between(time.Hour, day, time.Second), 4.70},
		{between(day, 30*day, 61*time.Second), 7},
	} {
		sum := 0
		for _, d := range c.delays {
			sum += len(l.Plan(nil, d))
		}
		require.LessOrEqual(t, float64(sum)/float64(len(c.delays)), c.most, "from %v", c.delays[0])
	}
}

// FuzzSteps: what is accepted makes up every delay up to the longest.
func FuzzSteps(f *testing.F) {
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
		plan := l.Plan(nil, time.Duration(delay))
		sum := time.Duration(0)
		for _, step := range plan {
			sum += l.Waits[step]
		}
		require.Equal(t, time.Duration(l.Ticks(time.Duration(delay)))*l.Tick, sum)
		require.LessOrEqual(t, len(plan), l.Hops(l.longest))
	})
}

func TestConfig_Defaults(t *testing.T) {
	require.Equal(t, Default(), Config{}.withDefaults())
	require.Equal(t, Config{Tick: time.Minute, Routing: Topic, Steps: Binary}, Config{Tick: time.Minute, Routing: Topic}.withDefaults())
}

// TestConfig_TopicLevels: as many levels as one likes, if each step is twice the one before.
func TestConfig_TopicLevels(t *testing.T) {
	for _, steps := range []Steps{Binary, "1s", "1s,2s", "8s,4s,2s,1s"} {
		l, err := Config{Tick: time.Second, Routing: Topic, Steps: steps}.ladder()
		require.NoError(t, err, steps)
		require.True(t, l.doubles())
	}
	for _, steps := range []Steps{Calendar, "1s,2s,3s", "1s,1500ms,2500ms", "1s,2s,4s,5s"} {
		_, err := Config{Tick: 500 * time.Millisecond, Routing: Topic, Steps: steps}.ladder()
		require.Error(t, err, steps)
	}
	_, err := Config{Tick: time.Second, Routing: Topic, Steps: "1s,2s,3s"}.ladder()
	require.ErrorContains(t, err, `"1s,2s,3s" needs routing: source`)
	require.ErrorContains(t, err, "must double from the tick on")
	all := Config{Tick: time.Second, Routing: Topic, Steps: "1s,2s,4s,8s"}
	l, err := all.ladder()
	require.NoError(t, err)
	require.Equal(t, 15*time.Second, l.longest)
}
