package sendcmd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/cli"
)

func TestMoment(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2027-01-31T18:00:00Z":      time.Date(2027, 1, 31, 18, 0, 0, 0, time.UTC),
		"2027-01-31T18:00:00.5Z":    time.Date(2027, 1, 31, 18, 0, 0, 5e8, time.UTC),
		"2027-01-31T18:00+02:00":    time.Date(2027, 1, 31, 16, 0, 0, 0, time.UTC),
		"2027-01-31T18:00":          time.Date(2027, 1, 31, 18, 0, 0, 0, time.Local),
		"2027-01-31 18:00:30":       time.Date(2027, 1, 31, 18, 0, 30, 0, time.Local),
		"2027-01-31T18:00:00+00:00": time.Date(2027, 1, 31, 18, 0, 0, 0, time.UTC),
	} {
		var m moment
		require.NoError(t, m.UnmarshalText([]byte(text)), text)
		assert.True(t, want.Equal(m.Time), "%s: %v", text, m.Time)
	}
	for _, text := range []string{"", "18:00", "2027-01-31", "tomorrow", "2027-02-30T18:00"} {
		var m moment
		assert.Error(t, m.UnmarshalText([]byte(text)), text)
	}
}

func TestUntil(t *testing.T) {
	now := time.Now()
	hour, negative := cli.Delay(time.Hour), cli.Delay(-1)
	at := func(d time.Duration) *moment { return &moment{now.Add(d)} }
	for name, c := range map[string]struct {
		delay *cli.Delay
		at    *moment
		want  time.Duration
		err   string
	}{
		"delay":    {delay: &hour, want: time.Hour},
		"at":       {at: at(time.Minute), want: time.Minute},
		"neither":  {err: "give a delay, or --at"},
		"both":     {delay: &hour, at: at(1), err: "give a delay, or --at"},
		"negative": {delay: &negative, err: "is negative"},
		"past":     {at: at(-1), err: "has passed"},
		"far":      {at: &moment{now.AddDate(300, 0, 0)}, err: "292 years"},
	} {
		got, err := until(c.delay, c.at, now)
		assert.Equal(t, c.want, got, name)
		if c.err == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.err, name)
		}
	}
}

// TestDue: the time that is said is the one that the backend keeps.
func TestDue(t *testing.T) {
	tiers := delayer.Limits{Tiers: []time.Duration{time.Second, time.Minute}, Resolution: time.Second}
	ticks := delayer.Limits{Max: time.Hour, Resolution: time.Second}
	now := time.Now()
	for _, c := range []struct {
		limits      delayer.Limits
		delay, want time.Duration
	}{
		{ticks, 0, 0},
		{ticks, 2 * time.Second, 2 * time.Second},
		{ticks, 1500 * time.Millisecond, 2 * time.Second},
		{delayer.Limits{}, 1, 1},
		{tiers, 0, 0},
		{tiers, time.Minute, time.Minute},
		{tiers, 2 * time.Second, time.Minute},
		{tiers, time.Hour, time.Hour},
	} {
		assert.Equal(t, now.Add(c.want), due(c.limits, now, c.delay).Due, "%v", c.delay)
	}
}
