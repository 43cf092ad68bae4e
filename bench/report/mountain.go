package report

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// A mountain is one subject's distribution of lateness: its height is the share of messages on the
// smaller side, so that the summit is the median, and the far slope the tail.
type mountain struct {
	name      string
	class     string
	late      Lateness
	quantiles []Quantile
}

// Sizes of a mountain's row, in pixels.
const (
	mountainHigh = 26.0
	mountainRow  = 58.0 // with a label of one line
	axisHigh     = 26.0
	lateFloor    = 0.1 // ms: what is less, and what is early, lies at the left edge of a log scale
)

// mountains draws the rows above one log axis of milliseconds.
func mountains(id, title string, rows []mountain) template.HTML {
	var values []float64
	for _, row := range rows {
		values = append(values, row.late.P50, row.late.Max)
		for _, q := range row.shape() {
			values = append(values, q.MS)
		}
	}
	axis := logScale(values, lateFloor)
	labels := make([]label, len(rows))
	for i, row := range rows {
		labels[i] = makeLabel(row.name, format.Figure(row.late.P50)+" · "+format.Figure(row.late.P90)+" · "+format.Figure(row.late.P99)+" ms")
	}
	each := mountainRow + labelLine*(lines(labels)-1)
	height := float64(len(rows))*each + axisHigh
	var c canvas
	c.picture(id, title, mountainWords(rows), `class="fluid" width="100%" height="`+num(height)+`"`)
	c.timeAxis(axis, height)
	for i, row := range rows {
		c.label(labels[i], float64(i)*each, lines(labels))
		c.mountain(row, axis, float64(i+1)*each-mountainRow+labelLine+4)
	}
	return c.done()
}

// mountainWords says in words what the rows show.
func mountainWords(rows []mountain) string {
	parts := make([]string, len(rows))
	for i, row := range rows {
		parts[i] = fmt.Sprintf("%s: half at most %s ms late, 99 %% at most %s ms", row.name, format.Figure(row.late.P50), format.Figure(row.late.P99))
	}
	return "Lateness on a logarithmic scale. " + strings.Join(parts, "; ") + "."
}

// timeAxis draws a line and a label for each decade.
func (c *canvas) timeAxis(axis scale, height float64) {
	for _, tick := range axis.ticks() {
		x := percent(axis.at(tick))
		c.line("grid", x, "0", x, num(height-axisHigh+4))
		anchor := "middle"
		switch at := axis.at(tick); {
		case at < 0.05:
			anchor = "start"
		case at > 0.95:
			anchor = "end"
		}
		c.text("tick", anchor, x, height-8, millis(tick))
	}
}

func (c *canvas) mountain(m mountain, axis scale, top float64) {
	c.stretched(top, mountainHigh)
	c.path("mountain "+m.class, m.outline(axis))
	c.end()
	base := top + mountainHigh
	c.line("base", "0", num(base), "100%", num(base))
	c.marker(m.class, percent(axis.at(m.late.P90)), base, "M-1.75 -7H1.75V7H-1.75Z")
	c.marker(m.class, percent(axis.at(m.late.P99)), base, "M0 -5.5L5.5 0 0 5.5-5.5 0Z")
	c.marker(m.class, percent(axis.at(m.late.P50)), base, "M-4.5 0A4.5 4.5 0 1 1 4.5 0A4.5 4.5 0 1 1-4.5 0Z")
}

// marker draws a shape of fixed size around a point.
func (c *canvas) marker(class, x string, y float64, d string) {
	c.at(x, y)
	c.path("marker "+class, d)
	c.end()
}

// shape is the distribution, as fine as the report has it.
func (m mountain) shape() []Quantile {
	if len(m.quantiles) > 0 {
		return m.quantiles
	}
	return []Quantile{{0, m.late.Min}, {50, m.late.P50}, {90, m.late.P90}, {99, m.late.P99}, {100, m.late.Max}}
}

// outline is the closed shape, 1000 wide.
func (m mountain) outline(axis scale) string {
	shape := m.shape()
	var d strings.Builder
	d.WriteString("M" + short(1000*axis.at(shape[0].MS)) + " " + short(mountainHigh))
	for _, q := range shape {
		smaller := min(q.Percent, 100-q.Percent) / 50
		d.WriteString("L" + short(1000*axis.at(q.MS)) + " " + short(mountainHigh*(1-smaller)))
	}
	d.WriteString("L" + short(1000*axis.at(shape[len(shape)-1].MS)) + " " + short(mountainHigh) + "Z")
	return d.String()
}
