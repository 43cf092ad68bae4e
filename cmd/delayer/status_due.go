package main

import (
	"strings"
	"time"

	"github.com/delayer-go/delayer/status"
)

// due is a table of what waits by the time when it is due, with a bar for each. What is overdue is
// one row.
func (v statusView) due(b *strings.Builder, one status.Backend) {
	var rows []barred
	if n, since := one.Overdue(v.now); *n > 0 {
		rows = append(rows, barred{[]string{"overdue, for " + age(since, v.now)}, *n})
	}
	for _, d := range one.Due {
		if d.To.After(v.now) {
			rows = append(rows, barred{[]string{dueSpan(d, v.now)}, d.Messages})
		}
	}
	most := 0
	for _, r := range rows {
		most = max(most, r.messages)
	}
	v.bars(b, []string{"DUE"}, most, rows)
}

// dueSpan is a time as people write it, in the time zone of now: 12:31, 14:00 to 15:00, Nov 25,
// Jan 3 to Feb 2. A time of another day has its date, one of another year its year.
func dueSpan(d status.Due, now time.Time) string {
	from, to := d.From.In(now.Location()), d.To.In(now.Location())
	switch width := d.To.Sub(d.From); {
	case width <= time.Minute:
		return dated(from, now, "15:04")
	case width <= time.Hour:
		return dated(from, now, "15:04") + " to " + to.Format("15:04")
	case width <= 24*time.Hour && from.Hour() == 0:
		return dated(from, now, "")
	case width <= 24*time.Hour: // a day of UTC
		return dated(from, now, "15:04") + " to " + dated(to, now, "15:04")
	default:
		return dated(from, now, "") + " to " + dated(to, now, "")
	}
}

// dated is a time with its date where that is not today's, or where there is no time of day.
func dated(at, now time.Time, layout string) string {
	date := "Jan 2"
	if at.Year() != now.Year() {
		date = "Jan 2 2006"
	}
	if layout != "" && at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(layout)
	}
	return strings.TrimSpace(at.Format(date + " " + layout))
}
