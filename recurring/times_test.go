package recurring

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func zone(t require.TestingT, name string) *time.Location {
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

// TestTimes has what follows a moment in a zone whose clocks are put forward or set back then.
func TestTimes(t *testing.T) {
	const berlin, newYork = "Europe/Berlin", "America/New_York"
	for name, c := range map[string]struct {
		cron, zone, after string
		want              []string // in the zone
	}{
		"UTC":                     {"30 2 * * *", "UTC", "2026-03-28T03:00:00Z", []string{"2026-03-29T02:30:00Z", "2026-03-30T02:30:00Z"}},
		"a month without the day": {"0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", []string{"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"}},
		"either day":              {"0 0 13 * FRI", "UTC", "2026-11-06T00:00:00Z", []string{"2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"}},
		"Sunday is 7 too":         {"0 0 * * 7", "UTC", "2026-11-28T00:00:00Z", []string{"2026-11-29T00:00:00Z"}},
		"summer and winter":       {"0 9 * * *", berlin, "2026-10-24T12:00:00+02:00", []string{"2026-10-25T09:00:00+01:00"}},

		"put forward": {"30 2 * * *", berlin, "2026-03-28T12:00:00+01:00", []string{
			"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		"put forward, several skipped": {"*/15 1-3 * * *", berlin, "2026-03-29T01:30:00+01:00", []string{
			"2026-03-29T01:45:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:15:00+02:00"}},
		"put forward at midnight": {"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", []string{
			"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		"a day that does not exist": {"0 12 30 12 *", "Pacific/Apia", "2011-12-29T20:00:00-10:00", []string{
			"2011-12-31T00:00:00+14:00", "2012-12-30T12:00:00+14:00"}},
		"set back": {"30 2 * * *", berlin, "2026-10-24T12:00:00+02:00", []string{
			"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"set back, within the hour that comes twice": {"30 1 * * *", newYork, "2026-11-01T01:10:00-05:00", []string{
			"2026-11-02T01:30:00-05:00"}},
		"set back by half an hour": {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00", []string{
			"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},

		"every hour, put forward": {"0 * * * *", berlin, "2026-03-29T00:30:00+01:00", []string{
			"2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"}},
		"every hour, set back": {"0 * * * *", berlin, "2026-10-25T01:30:00+02:00", []string{
			"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		"every half hour, set back": {"*/30 * * * *", berlin, "2026-10-25T02:30:00+02:00", []string{
			"2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := zone(t, c.zone)
			of, err := parse(c.cron, in)
			require.NoError(t, err)
			at, err := time.Parse(time.RFC3339, c.after)
			require.NoError(t, err)
			for _, want := range c.want {
				var ok bool
				at, ok = of.next(at)
				require.True(t, ok)
				require.Equal(t, want, at.In(in).Format(time.RFC3339))
			}
		})
	}
}

// TestTimes_Daily: whatever the zone does, a time of day comes once a day, in order, and when the
// clock shows it, if it does.
func TestTimes_Daily(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := zone(t, rapid.SampledFrom([]string{"Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca"}).Draw(t, "zone"))
		hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
		of, err := parse(fmt.Sprintf("%d %d * * *", minute, hour), in)
		require.NoError(t, err)
		day := time.Date(rapid.IntRange(2010, 2036).Draw(t, "year"), 1, rapid.IntRange(1, 365).Draw(t, "day"), 12, 0, 0, 0, time.UTC)
		at := time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, in)
		for range 60 {
			day = day.AddDate(0, 0, 1)
			next, ok := of.next(at)
			require.True(t, ok)
			require.True(t, next.After(at))
			at = next
			local := at.In(in)
			require.Equal(t, day.Format(time.DateOnly), local.Format(time.DateOnly))
			if local.Hour() != hour || local.Minute() != minute {
				before := at.Add(-time.Second).In(in)
				_, was := before.Zone()
				_, is := local.Zone()
				require.Greater(t, is, was, "%v: it is the moment at which clocks are put forward", local)
			}
		}
	})
}

func TestParse_Invalid(t *testing.T) {
	for cron, want := range map[string]string{
		"":             "it has 0 fields, want 5",
		"@daily":       "it has 1 fields, want 5",
		"0 * * * * *":  "it has 6 fields, want 5",
		"60 * * * *":   "it cannot be read",
		"0 22-2 * * *": "it cannot be read",
		"*/0 * * * *":  "it cannot be read",
		"a b c d e":    "it cannot be read",
		"0 0 30 2 *":   "no time matches it",
		"0 0 31 4,6 *": "no time matches it",
	} {
		_, err := parse(cron, time.UTC)
		require.ErrorContains(t, err, want, cron)
	}
}
