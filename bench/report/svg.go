package report

import (
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"
)

// A canvas is SVG in the making. Whatever is text in it is escaped.
type canvas struct{ strings.Builder }

// picture begins an image with a title and a description for screen readers.
func (c *canvas) picture(id, title, description, attributes string) {
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="%s-t %s-d" %s>`, id, id, attributes)
	fmt.Fprintf(c, `<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		id, html.EscapeString(title), id, html.EscapeString(description))
}

// stretched begins a part that is as wide as the picture; in it x goes from 0 to 1000.
func (c *canvas) stretched(y, height float64) {
	fmt.Fprintf(c, `<svg x="0" y="%s" width="100%%" height="%s" viewBox="0 0 1000 %s" preserveAspectRatio="none">`,
		num(y), num(height), num(height))
}

// at begins a part whose origin is at x, a percentage or a number, and y; its shapes keep their
// size.
func (c *canvas) at(x string, y float64) {
	fmt.Fprintf(c, `<svg x="%s" y="%s" overflow="visible">`, x, num(y))
}

func (c *canvas) end() { c.WriteString("</svg>") }

func (c *canvas) path(class, d string) {
	fmt.Fprintf(c, `<path class="%s" d="%s" vector-effect="non-scaling-stroke"/>`, class, d)
}

func (c *canvas) line(class, x1, y1, x2, y2 string) {
	fmt.Fprintf(c, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, x1, y1, x2, y2)
}

func (c *canvas) rect(class, x string, y float64, width string, height float64) {
	fmt.Fprintf(c, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, class, x, num(y), width, num(height))
}

// text writes at x, a percentage or a number; anchor is start, middle or end.
func (c *canvas) text(class, anchor, x string, y float64, text string) {
	fmt.Fprintf(c, `<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`, class, anchor, x, num(y), html.EscapeString(text))
}

// done closes the picture.
func (c *canvas) done() template.HTML {
	c.end()
	return template.HTML(c.String())
}

func num(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }

// short writes a coordinate in a tenth of a unit.
func short(v float64) string { return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") }

func percent(part float64) string { return short(100*part) + "%" }
