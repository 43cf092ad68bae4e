package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// longestShown is the longest name that a table shows, in characters.
const longestShown = 48

// Shown returns a name for a terminal. It is quoted if it has unprintable characters, and cut in
// the middle if it is long.
func Shown(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || r == ' ' || r == utf8.RuneError }) {
		name = strconv.Quote(name)
	}
	if r := []rune(name); len(r) > longestShown {
		name = string(r[:longestShown-17]) + "…" + string(r[len(r)-16:])
	}
	return name
}

// OrDash is Shown, or "-" for no text.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return Shown(text)
}

// Brief is the beginning of a text for a terminal, or "-" for none.
func Brief(text string) string {
	const most = 60 // characters
	return cmp.Or(first(Plain(text, ""), most), "-")
}

// first is the beginning of a text: at most that many characters.
func first(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// Plain escapes what could steer a terminal: all characters that are not printed, except those to
// keep.
func Plain(text, keep string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsGraphic(r) || strings.ContainsRune(keep, r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Count is a number of things: "1 node", "2 nodes".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Ago returns how long ago something was due, "in …" if it is still to come, or "-" if unknown.
func Ago(at, now time.Time) string {
	switch d := now.Sub(at); {
	case at.IsZero():
		return "-"
	case d < 0:
		return "in " + span(-d)
	default:
		return span(d) + " ago"
	}
}

// Age is how long something has been, or "-" if unknown.
func Age(since, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return span(max(0, now.Sub(since)))
}

func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh %dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd %dh", d/day, d%day/time.Hour)
}

// Stretch is a stretch of time as people write it, in the time zone of now: 12:31:04, 12:31:04 to
// 12:31:36, 14:00 to 16:00, Nov 25 00:00 to 12:00, 22:00 to Nov 26 00:00. Up to a second it is its
// beginning; otherwise the ends are rounded outwards, from ten minutes on to minutes. A time of
// another day has its date, one of another year its year.
func Stretch(from, to, now time.Time) string {
	return StretchBy(from.In(now.Location()), to.In(now.Location()), now, Dated)
}

// StretchBy is [Stretch] with another way to write a time and, where it differs from that of near,
// its date.
func StretchBy(from, to, now time.Time, write func(t, near time.Time, layout string) string) string {
	layout, unit := "15:04", time.Minute
	switch width := to.Sub(from); {
	case width <= time.Second:
		return write(from, now, time.TimeOnly)
	case width < 10*time.Minute:
		layout, unit = time.TimeOnly, time.Second
	}
	return write(from, now, layout) + " to " + write(to.Add(unit-1).Truncate(unit), from, layout)
}

// Dated is a time with its date where that is not the date of near, and its year where that is
// another one.
func Dated(t, near time.Time, layout string) string {
	date := "Jan 2"
	if t.Year() != near.Year() {
		date = "Jan 2 2006"
	}
	if t.Format(time.DateOnly) == near.Format(time.DateOnly) {
		return t.Format(layout)
	}
	return t.Format(date + " " + layout)
}

// Short is a duration without units that are zero: 1h, 12m30s, 250ms.
func Short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Size is a number of bytes.
func Size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// A Delay is how long something waits, as people write it: 250ms, 90s, 36h, 2d or 1d12h.
type Delay time.Duration

// UnmarshalText reads days, which [time.ParseDuration] does not know, as 24 hours each.
func (w *Delay) UnmarshalText(text []byte) error {
	days, rest, found := strings.Cut(string(text), "d")
	if !found {
		days, rest = "0", string(text)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || strings.Trim(days, "-.0123456789") != "" { // ParseFloat also reads 1_0, 0x1p0 and Inf
		return errNoDelay
	}
	var d time.Duration
	if rest != "" || !found {
		if d, err = time.ParseDuration(rest); err != nil || found && (d < 0 || rest[0] == '+') {
			return errNoDelay
		}
	}
	total := n*float64(24*time.Hour) + float64(d)
	if math.IsNaN(total) || math.Abs(total) >= math.MaxInt64 {
		return errors.New("it is longer than 292 years")
	}
	*w = Delay(time.Duration(n*float64(24*time.Hour)) + d)
	return nil
}

var errNoDelay = errors.New("it must be a time with its unit, such as 250ms, 90s, 36h, 2d or 1d12h")
