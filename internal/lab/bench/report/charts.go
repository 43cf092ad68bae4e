package report

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A chart shows one or two measures of a scenario for each subject.
type chart struct {
	scenario, title string
	measures        []string
}

var charts = []chart{
	{"accuracy", "How late messages are", []string{"late p50", "p99"}},
	{"accuracy", "Processor time for a message, at that rate", []string{"broker CPU", "client CPU"}},
	cpu,
	{"cost", "Messages taken", []string{"publish"}},
	{"hol", "How late the short ones are", []string{"late p50", "p99"}},
	{"rate", "In time up to", []string{"in time to"}},
	{"backlog", "What a waiting message takes", []string{"memory", "disk"}},
	{"backlog", "How late short ones are behind them", []string{"late p50", "p99"}},
}

// cpu is also the picture of a README.
var cpu = chart{"cost", "Processor time for a message", []string{"broker CPU", "client CPU"}}

// ErrNoPicture is returned by WritePicture for a report that holds nothing to draw.
var ErrNoPicture = errors.New("nothing for a picture: it takes runs of scenario cost with the broker's processor time")

// WritePicture writes a picture for a README: what a message costs broker and client, with the
// spread of the repetitions, as SVG on a white ground. It is of the report's first type of queue.
// The error is [ErrNoPicture] or that of w.
func (r *Report) WritePicture(w io.Writer) error {
	for _, t := range tables(r, true) {
		if t.Name != cpu.scenario {
			continue
		}
		c := cpu
		if n := len(t.Rows[0].runs); n > 1 {
			c.title += fmt.Sprintf(" (median and range of %d runs)", n)
		}
		c.title += fmt.Sprintf("\n%s %s, %d cores, %s queues, %s", r.Broker.Product, r.Broker.Version, r.Machine.CPUs,
			t.QueueType, r.Started.UTC().Format("2 January 2006"))
		if svg, err := c.svg(t); err != nil || svg != "" {
			_, err = io.WriteString(w, string(svg))
			return err
		}
	}
	return ErrNoPicture
}

// pixel is that of CSS.
const pixel = vg.Inch / 96

// marks tell two measures apart, by shape as well as by colour.
var marks = []draw.GlyphStyle{
	{Color: color.RGBA{R: 0x1f, G: 0x5f, B: 0xbf, A: 0xff}, Radius: 4 * pixel, Shape: draw.CircleGlyph{}},
	{Color: color.RGBA{R: 0xc4, G: 0x56, B: 0x00, A: 0xff}, Radius: 4 * pixel, Shape: draw.PyramidGlyph{}},
}

// spreads are the medians of a measure, and the range of each.
type spreads struct {
	plotter.XYs
	plotter.XErrors
}

// spreads reads a measure. The first row is on top.
func (t table) spreads(m measure) (out spreads) {
	for i, row := range t.Rows {
		if s := m.of(row.runs); s.median > 0 {
			out.XYs = append(out.XYs, plotter.XY{X: s.median, Y: float64(len(t.Rows) - 1 - i)})
			out.XErrors = append(out.XErrors, struct{ Low, High float64 }{s.median - s.low, s.high - s.median})
		}
	}
	return out
}

// svg draws a row for each subject: the median of each measure, and a line for the range of the
// repetitions. It returns "" if nothing was measured.
func (c chart) svg(t table) (template.HTML, error) {
	p := plot.New()
	for _, text := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		text.Font.Variant, text.Font.Size = "Sans", 12*pixel
	}
	p.Title.Text, p.Title.TextStyle.Font.Size, p.Title.Padding = c.title, 13*pixel, 8*pixel
	p.Legend.Top, p.Legend.Padding = true, 4*pixel
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{Y: 0xee}, color.Gray{Y: 0xdd}
	p.Add(grid)

	lowest, highest := math.Inf(1), 0.0
	for i, name := range c.measures {
		m := measures[slices.IndexFunc(measures, func(m measure) bool { return m.name == name })]
		points := t.spreads(m)
		if len(points.XYs) == 0 {
			continue
		}
		for n := range points.XYs {
			points.XYs[n].Y -= 0.3 * (float64(i) - float64(len(c.measures)-1)/2) // beside one another
			lowest = min(lowest, points.XYs[n].X-points.XErrors[n].Low)
			highest = max(highest, points.XYs[n].X+points.XErrors[n].High)
		}
		ranges, err := plotter.NewXErrorBars(points)
		if err != nil {
			return "", err
		}
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return "", err
		}
		ranges.Color, ranges.Width, ranges.CapWidth, dots.GlyphStyle = marks[i].Color, 1.5*pixel, 8*pixel, marks[i]
		p.Add(ranges, dots)
		p.Legend.Add(name, dots)
		p.X.Label.Text = m.unit
	}
	if highest == 0 {
		return "", nil
	}

	const far = 20 // on a linear scale small figures could not be told apart
	p.X.Min, p.X.Max = 0, highest*1.05
	if highest > far*lowest {
		p.X.Min, p.X.Scale, p.X.Tick.Marker = max(lowest, highest/1e6)/1.2, plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.X.Label.Text += " (logarithmic)"
	}
	names := make([]string, len(t.Rows))
	for i, row := range t.Rows {
		names[len(names)-1-i] = row.Name
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4+float64(len(c.measures)) // room for the legend

	const width, rowHeight, rest, margin = 470, 26, 100, 12 * pixel // a viewer's font may be wider
	canvas := vgsvg.New(width*pixel, vg.Length(rest+rowHeight*(len(names)+len(c.measures)))*pixel)
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin/2, -margin/2))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	_, text, _ := strings.Cut(b.String(), "?>") // that is for files of their own
	text = strings.ReplaceAll(text, "font-family:Liberation Sans", "font-family:Liberation Sans,Arial,sans-serif")
	return template.HTML(strings.TrimSpace(text) + "\n"), err
}
