package report

import (
	"strings"
	"unicode/utf8"
)

// A label is above a row of a chart: its name, and its value at the right. It takes a second line
// if both do not fit beside each other on a phone.
type label struct{ first, second, value string }

// Sizes of a label, in pixels.
const (
	most        = 41 // letters of a name
	labelLine   = 17.0
	narrowest   = 322.0 // what a phone of 360 px leaves
	wideLetter  = 7.7   // of a name, which is bold
	smallLetter = 7.1
)

// makeLabel breaks a long name at the comma before its setting, and cuts what is still too long:
// the table has the whole name.
func makeLabel(name, value string) label {
	l := label{first: name, value: value}
	if l.fits() {
		return l
	}
	l.first, l.second, _ = strings.Cut(name, ", ")
	if utf8.RuneCountInString(l.first) > most {
		l.first = string([]rune(l.first)[:most-1]) + "…"
	}
	return l
}

func (l label) fits() bool {
	return wideLetter*float64(utf8.RuneCountInString(l.first))+smallLetter*float64(utf8.RuneCountInString(l.value)+1) < narrowest
}

// lines is how many lines all the labels of a chart take, so that its rows are equally high.
func lines(labels []label) float64 {
	for _, l := range labels {
		if l.second != "" || !l.fits() {
			return 2
		}
	}
	return 1
}

// label writes into so many lines; a label of one line is in the last.
func (c *canvas) label(l label, y, lines float64) {
	last := y + 13 + labelLine*(lines-1)
	first := last
	if l.second != "" || !l.fits() {
		first = last - labelLine
	}
	c.text("name", "start", "0", first, l.first)
	if l.second != "" {
		c.text("tick", "start", "0", last, l.second)
	}
	c.text("value", "end", "100%", last, l.value)
}
