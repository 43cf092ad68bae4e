package recurring

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// times are those of a cron expression in a zone.
type times struct {
	cron      string
	zone      *time.Location
	everyHour bool
}

func parse(cron string, zone *time.Location) (times, error) {
	fields := strings.Fields(cron)
	switch {
	case len(fields) != 5:
		return times{}, fmt.Errorf("it has %d fields, want 5: minute, hour, day of month, month and day of week", len(fields))
	case !gronx.IsValid(cron):
		return times{}, errors.New("it cannot be read")
	}
	t := times{cron: strings.Join(fields, " "), zone: zone, everyHour: fields[1] == "*"}
	if _, ok := t.match(time.Now().UTC()); !ok {
		return times{}, errors.New("no time matches it")
	}
	return t, nil
}

// next returns the first time after another.
func (t times) next(after time.Time) (time.Time, bool) {
	if t.everyHour {
		return t.nextOfEveryHour(after)
	}
	clock, ok := t.match(t.shown(after))
	for ok && !t.first(clock).After(after) {
		clock, ok = t.match(clock)
	}
	return t.first(clock), ok
}

// match returns the first time on a clock after another that the expression names. Here what a
// clock shows is the time in UTC with the same date and hour.
func (t times) match(clock time.Time) (time.Time, bool) {
	next, err := gronx.NextTickAfter(t.cron, clock, false)
	return next, err == nil
}

func (t times) shown(at time.Time) time.Time {
	_, offset := at.In(t.zone).Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// first returns the first moment at which the clock of the zone shows a time or a later one. It
// shows one twice when it is set back, and some never when it is put forward.
func (t times) first(clock time.Time) time.Time {
	const moreThanADay = 26 * time.Hour // no zone is that far from UTC
	from := clock.Add(-moreThanADay)
	for {
		_, end := from.In(t.zone).ZoneBounds()
		at := from.Add(max(0, clock.Sub(t.shown(from))))
		if end.IsZero() || at.Before(end) {
			return at.UTC()
		}
		from = end
	}
}

// nextOfEveryHour is next for an expression of every hour: also of one that comes twice.
func (t times) nextOfEveryHour(after time.Time) (time.Time, bool) {
	clock := t.shown(after)
	for {
		next, ok := t.match(clock)
		_, end := after.In(t.zone).ZoneBounds()
		at := after.Add(next.Sub(t.shown(after)))
		if !ok || end.IsZero() || at.Before(end) {
			return at.UTC(), ok
		}
		after, clock = end, t.shown(end).Add(-time.Second) // so that end itself can match
	}
}
