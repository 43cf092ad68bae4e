package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/format"
	"github.com/delayer-go/delayer/status"
)

// A panel is a picture of a stretch of time in equal bins, each with a bar.
type panel struct {
	Title, Sum, Peak string
	Bars             []bar
	Ticks            []template.HTML // evenly spaced, from the left edge to the right one
	Days             bool            // each bar is a day in UTC

	from   time.Time
	bin    time.Duration
	layout string // of the bars
}

// A bar is in thousandths of the width, and hundredths of the height. It is a row of a table too.
type bar struct {
	X, Y, W, H   float64
	Label, Value string
	When         template.HTML
}

// height and width of the picture, before the browser stretches it.
const wide, high = 1000.0, 100.0

// draw adds a bar for each bin that has something, and the times below them. The highest bar takes
// the whole height.
func (p *panel) draw(values []float64, value func(float64) string) {
	most := slices.Max(values)
	width := wide / float64(len(values))
	for i, v := range values {
		if v <= 0 {
			continue
		}
		h := max(v/most*high, 2) // that there is something must be seen
		at := p.from.Add(time.Duration(i) * p.bin)
		p.Bars = append(p.Bars, bar{
			X: round(float64(i)*width + width*0.1), W: round(width * 0.8), Y: round(high - h), H: round(h),
			Label: at.Format(p.layout) + ": " + value(v), Value: value(v), When: stamp(at, p.layout),
		})
	}
	if most > 0 {
		p.Peak = value(most)
	}
	ticks := "15:04"
	if p.Days {
		ticks = "Jan 2"
	}
	const gaps = 4
	for i := range gaps + 1 {
		p.Ticks = append(p.Ticks, stamp(p.from.Add(p.bin*time.Duration(i*len(values)/gaps)), ticks))
	}
}

func round(x float64) float64 { return math.Round(x*10) / 10 }

const day = 24 * time.Hour

// duePanels are what is due in the next hour, in the next day, and in all. What is overdue is in
// none.
func duePanels(due []status.Due, now time.Time) []panel {
	last := now
	for _, d := range due {
		if d.To.After(last) {
			last = d.To
		}
	}
	today := now.UTC().Truncate(day)
	days := max(8, 4*int(math.Ceil(float64(last.Sub(today))/float64(4*day)))) // so that each tick is a day
	hour, each := now.UTC().Truncate(time.Hour), now.UTC().Truncate(time.Minute)
	return []panel{
		duePanel(panel{Title: "next hour, by minute", from: each, bin: time.Minute, layout: "15:04"}, 60, due, now),
		duePanel(panel{Title: "next 24 hours, by hour", from: hour, bin: time.Hour, layout: "Mon 15:04"}, 24, due, now),
		duePanel(panel{Title: fmt.Sprintf("next %d days, by day in UTC", days), from: today, bin: day, layout: "Mon Jan 2", Days: true}, days, due, now),
	}
}

func duePanel(p panel, bins int, due []status.Due, now time.Time) panel {
	values, sum, about := make([]float64, bins), 0.0, ""
	end := p.from.Add(time.Duration(bins) * p.bin)
	for _, d := range due {
		if !d.To.After(now) {
			continue
		}
		begin := d.From
		if begin.Before(p.from) {
			begin = p.from
		}
		for i := range values {
			at := p.from.Add(time.Duration(i) * p.bin)
			n := float64(d.Messages) * overlap(begin, d.To, at, at.Add(p.bin))
			values[i] += n
			sum += n
		}
		if begin.Before(end) && d.To.After(end) {
			about = "about "
		}
	}
	p.Sum = about + format.Thousands(int(math.Round(sum)))
	p.draw(values, func(v float64) string {
		if v < 1 {
			return "fewer than 1"
		}
		return format.Thousands(int(math.Round(v)))
	})
	return p
}

// overlap is how much of one stretch is in another.
func overlap(from, to, in, until time.Time) float64 {
	begin, end := from.Sub(in), to.Sub(in)
	shared := min(end, until.Sub(in)) - max(begin, 0)
	if shared <= 0 {
		return 0
	}
	return float64(shared) / float64(end-begin)
}

// ratePanels are what was delivered a second in each minute, and how late the latest was.
func ratePanels(h hour) []panel {
	rates, late := make([]float64, len(h.Each)), make([]float64, len(h.Each))
	for i := range h.Each {
		m := &h.Each[i]
		rates[i], late[i] = float64(m.n)/60, float64(m.late)
	}
	list := []panel{{Title: "delivered a second, by minute"}, {Title: "latest, by minute"}}
	for i := range list {
		list[i].from, list[i].bin, list[i].layout = h.From, time.Minute, "15:04"
	}
	list[0].draw(rates, perSecond)
	list[1].draw(late, func(v float64) string { return brief(time.Duration(v)) })
	return list
}

// perSecond is a rate, below 10 with two decimals where they are not zero.
func perSecond(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
	}
	return format.Thousands(int(math.Round(v)))
}

func brief(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return cli.Short(d.Round(time.Second))
}

// Times are written in UTC. A script writes them in the reader's zone, by the same layouts:
// assets/times.js.
const (
	clockLayout = "15:04:05 MST"
	whenLayout  = "Jan 2 15:04:05 MST"
)

// stamp is a time by a layout of package time. One without hours is of a day in UTC, which scripts
// leave as it is.
func stamp(t time.Time, layout string) template.HTML {
	t = t.UTC()
	if !strings.Contains(layout, "15") {
		return template.HTML(fmt.Sprintf("<time datetime=%q>%s</time>", t.Format(time.DateOnly), t.Format(layout)))
	}
	return template.HTML(fmt.Sprintf("<time datetime=%q data-layout=%q>%s</time>", t.Format(time.RFC3339), layout, t.Format(layout)))
}

// dated is a time with its date, where that is not the date of near.
func dated(t, near time.Time, layout string) template.HTML {
	t, near = t.UTC(), near.UTC()
	return template.HTML(fmt.Sprintf("<time datetime=%q data-layout=%q data-near=%q>%s</time>",
		t.Format(time.RFC3339), layout, near.Format(time.RFC3339), cli.Dated(t, near, layout)))
}

// when is a time with how far it is from now.
func when(t, now time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	if now.Sub(t).Abs() < time.Second {
		return stamp(t, whenLayout) + ", now"
	}
	return stamp(t, whenLayout) + ", " + template.HTML(cli.Ago(t, now))
}

func stretch(from, to, now time.Time) template.HTML {
	return template.HTML(cli.StretchBy(from, to, now, func(t, near time.Time, layout string) string {
		return string(dated(t, near, layout))
	}))
}
