package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A table is text in columns.
type table struct{ rows [][]string }

func newTable(head ...string) *table { return &table{[][]string{head}} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write aligns the columns to the left, the last of them unpadded.
func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// longestShown is the longest name that a table shows, in characters.
const longestShown = 48

// shown returns a name for a terminal. It is quoted if it has unprintable characters, and cut in
// the middle if it is long.
func shown(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || r == ' ' || r == utf8.RuneError }) {
		name = strconv.Quote(name)
	}
	if r := []rune(name); len(r) > longestShown {
		name = string(r[:longestShown-17]) + "…" + string(r[len(r)-16:])
	}
	return name
}

// ago returns how long ago something was due, "in …" if it is still to come, or "-" if unknown.
func ago(at, now time.Time) string {
	switch d := now.Sub(at); {
	case at.IsZero():
		return "-"
	case d < 0:
		return "in " + span(-d)
	default:
		return span(d) + " ago"
	}
}

// age is how long something has been.
func age(since, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return span(max(0, now.Sub(since)))
}

// span is a duration by its two largest units.
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

// size is a number of bytes.
func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
