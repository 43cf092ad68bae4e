package report

import (
	"html/template"
	"strings"
)

// A panel is one of several small pictures with the same axes: its own subject in front, the others
// faint behind it.
type panel struct {
	id, title, words string
	class            string
	verdict          string // in the picture, beside the name: "✕ late"
	x, y             axis
	dots             bool // of its own: each is a message
	own              []point
	others           [][]point
}

// An axis is a scale with a name and the text of its ticks.
type axis struct {
	scale
	name string
	tick func(float64) string
}

type point struct {
	x, y   float64
	hollow bool
}

// Sizes of a panel, in its own units.
const (
	panelWide   = 300.0
	panelHigh   = 230.0
	panelLeft   = 44.0
	panelRight  = 290.0
	panelTop    = 46.0
	panelBottom = 196.0
)

// draw makes the panel.
func (p panel) draw() template.HTML {
	var c canvas
	c.picture(p.id, p.title, p.words, `class="panel" viewBox="0 0 `+num(panelWide)+` `+num(panelHigh)+`"`)
	p.into(&c)
	return c.done()
}

func (p panel) into(c *canvas) {
	c.text("name", "start", "0", 14, p.title)
	if p.verdict != "" {
		c.text("verdict "+p.class, "end", num(panelRight), panelTop-14, p.verdict)
	}
	p.axes(c)
	if p.dots { // the diagonal, where x is y
		c.line("limit", short(p.right(p.x.low)), short(p.down(p.x.low)), short(p.right(p.x.high)), short(p.down(p.x.high)))
	}
	for _, other := range p.others {
		p.line(c, "ghost", other)
	}
	p.line(c, p.class, p.own)
}

func (p panel) right(v float64) float64 { return panelLeft + (panelRight-panelLeft)*p.x.at(v) }
func (p panel) down(v float64) float64  { return panelBottom - (panelBottom-panelTop)*p.y.at(v) }

// axes draws at most five ticks each way.
func (p panel) axes(c *canvas) {
	c.text("tick", "start", "0", panelTop-14, p.y.name)
	for _, tick := range thin(p.y.ticks()) {
		y := p.down(tick)
		c.line("grid", num(panelLeft), short(y), num(panelRight), short(y))
		c.text("tick", "end", num(panelLeft-6), y+4, p.y.tick(tick))
	}
	ticks := thin(p.x.ticks())
	for i, tick := range ticks {
		anchor := "middle"
		if i == len(ticks)-1 && p.right(tick) > panelRight-12 {
			anchor = "end"
		}
		x := short(p.right(tick))
		c.line("grid", x, num(panelBottom), x, num(panelBottom+4))
		c.text("tick", anchor, x, panelBottom+17, p.x.tick(tick))
	}
	c.text("tick", "middle", num((panelLeft+panelRight)/2), panelHigh-3, p.x.name)
}

// thin leaves out ticks until few are left.
func thin(ticks []float64) []float64 {
	const most = 5
	for len(ticks) > most {
		var kept []float64
		for i := 0; i < len(ticks); i += 2 {
			kept = append(kept, ticks[i])
		}
		ticks = kept
	}
	return ticks
}

// line draws a curve as one path, whatever the number of its points.
func (p panel) line(c *canvas, class string, points []point) {
	var through, full, hollow strings.Builder
	for i, at := range points {
		spot := short(p.right(at.x)) + " " + short(p.down(at.y))
		if i == 0 {
			through.WriteString("M" + spot)
		} else {
			through.WriteString("L" + spot)
		}
		if at.hollow {
			hollow.WriteString("M" + spot + "h0")
		} else {
			full.WriteString("M" + spot + "h0")
		}
	}
	if p.dots {
		c.path("dots "+class, full.String())
		return
	}
	c.path("curve "+class, through.String())
	if class == "ghost" {
		return
	}
	if full.Len() > 0 {
		c.path("spots "+class, full.String())
	}
	if hollow.Len() > 0 {
		c.path("spots "+class, hollow.String())
		c.path("spots hollow", hollow.String())
	}
}
