package report

import (
	"html/template"
	"strings"
)

// A bar is one subject's figure.
type bar struct {
	name  string
	class string
	value float64
	text  string // the figure with its unit, and its mark
	// low and high are the range of the repetitions, drawn if they differ.
	low, high float64
}

// Sizes of a bar's row, in pixels.
const (
	barRow  = 38.0 // with a label of one line
	barHigh = 10.0
)

// bars draws figures from 0 on, each with its own label: there is no axis to look up.
func bars(id, title string, rows []bar) template.HTML {
	var c canvas
	c.picture(id, title, barWords(rows), `class="fluid" width="100%" height="`+num(barsHigh(rows))+`"`)
	drawBars(&c, rows)
	return c.done()
}

func barWords(rows []bar) string {
	words := make([]string, len(rows))
	for i, row := range rows {
		words[i] = row.name + ": " + row.text
	}
	return strings.Join(words, "; ") + "."
}

func barLabels(rows []bar) []label {
	out := make([]label, len(rows))
	for i, row := range rows {
		out[i] = makeLabel(row.name, row.text)
	}
	return out
}

func barsHigh(rows []bar) float64 {
	return float64(len(rows)) * (barRow + labelLine*(lines(barLabels(rows))-1))
}

func drawBars(c *canvas, rows []bar) {
	axis := scale{high: 1e-9} // all may be 0
	for _, row := range rows {
		axis.high = max(axis.high, row.value, row.high)
	}
	labels, height := barLabels(rows), barsHigh(rows)/float64(len(rows))
	for i, row := range rows {
		c.label(labels[i], float64(i)*height, lines(labels))
		c.bar(row, axis, float64(i+1)*height-barRow)
	}
}

// bar draws below the last line of its label.
func (c *canvas) bar(b bar, axis scale, y float64) {
	y += 20
	c.rect("track", "0", y, "100%", barHigh)
	if b.value > 0 {
		c.rect("bar "+b.class, "0", y, percent(max(0.003, axis.at(b.value))), barHigh)
	}
	if b.high > b.low {
		middle := num(y + barHigh/2)
		c.line("range", percent(axis.at(b.low)), middle, percent(axis.at(b.high)), middle)
		for _, end := range []float64{b.low, b.high} {
			c.line("range", percent(axis.at(end)), num(y+1), percent(axis.at(end)), num(y+barHigh-1))
		}
	}
}
