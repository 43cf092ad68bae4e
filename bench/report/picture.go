package report

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
)

//go:embed picture.css
var pictureStyle string

// ErrNoPicture is returned by WritePicture for a report that holds nothing to draw.
var ErrNoPicture = errors.New("nothing for a picture: it takes runs of hol or hol-mix, or of cost with the broker's CPU (delayer-bench --scenario cost,hol)")

// Sizes of the picture, in its own units, which are pixels where it is not scaled.
const (
	pictureMargin = 28.0
	pictureGap    = 40.0
	pictureTop    = 74.0
)

// WritePicture writes a picture for a README: a subject whose long delays block short ones beside
// one whose do not, and what a message costs the broker. It is SVG with a background of its own,
// legible on light and dark pages, of the report's first type of queue. The error is [ErrNoPicture]
// or that of w.
func (r *Report) WritePicture(w io.Writer) error {
	parts := pictureParts(r)
	if len(parts) == 0 {
		return ErrNoPicture
	}
	width, height, words := 2*pictureMargin-pictureGap, 0.0, ""
	for _, part := range parts {
		width += panelWide + pictureGap
		height = max(height, part.height)
		words += part.title + ": " + part.words + " "
	}
	height += pictureTop + 52
	var c canvas
	size := fmt.Sprintf(`viewBox="0 0 %s %s" width="%s" height="%s"`, num(width), num(height), num(width), num(height))
	c.picture("delayer", "Delayed messages on "+r.Broker.Product, words, size)
	fmt.Fprintf(&c, "<style>%s</style>", pictureStyle)
	fmt.Fprintf(&c, `<rect class="card" x="0.5" y="0.5" width="%s" height="%s" rx="8"/>`, num(width-1), num(height-1))
	x := pictureMargin
	for _, part := range parts {
		c.text("title", "start", num(x), 36, part.title)
		c.text("note", "start", num(x), 54, part.key)
		fmt.Fprintf(&c, `<svg x="%s" y="%s" width="%s" height="%s">`, num(x), num(pictureTop), num(panelWide), num(part.height))
		part.inside(&c)
		c.end()
		x += panelWide + pictureGap
	}
	c.text("note", "start", num(pictureMargin), height-20, fmt.Sprintf("%s %s, %d cores, %s queues, %s. Measured with delayer-bench.",
		r.Broker.Product, r.Broker.Version, r.Machine.CPUs, r.Runs[0].QueueType, r.Started.UTC().Format("2 January 2006")))
	_, err := io.WriteString(w, string(c.done())+"\n")
	return err
}

// A part is one column of the picture.
type part struct {
	title, key, words string
	height            float64
	inside            func(*canvas)
}

// pictureParts are the panels of a subject that blocks and of one that does not, and the bars of
// the cost.
func pictureParts(r *Report) []part {
	var out []part
	title, key := "Does a long delay block short ones?", "each dot is a message; in time is the diagonal"
	for _, p := range contrast(r) {
		out = append(out, part{title, key, p.words, panelHigh, p.into})
		title, key = "", ""
	}
	const mostBars = 6 // the columns are then about equally high
	for _, t := range pictured(r, "cost") {
		if rows := brokerCPU.rows(t); len(rows) > 0 {
			rows = rows[:min(mostBars, len(rows))]
			out = append(out, part{"What a message costs the broker", "its processor time", barWords(rows),
				barsHigh(rows), func(c *canvas) { drawBars(c, rows) }})
		}
	}
	return out
}

// pictured is the table of a scenario with the report's first type of queue, if there is one.
func pictured(r *Report, scenario string) []table {
	return slices.DeleteFunc(tables(r), func(t table) bool {
		return t.scenario.Name != scenario || t.queueType != r.Runs[0].QueueType
	})
}

// contrast returns the panel of the subject that is most late, if one is late, and of the first
// that is in time, from the scenario that shows it best.
func contrast(r *Report) []panel {
	for _, t := range append(pictured(r, "hol-mix"), pictured(r, "hol")...) {
		median := map[string]float64{}
		for _, row := range t.rows {
			median[row.name] = row.first().Lateness.P50
		}
		panels := blockingPanels("b", t)
		inTime := slices.IndexFunc(panels, func(p panel) bool { return p.class != "bad" })
		var out []panel
		for _, p := range panels {
			if p.class == "bad" && (len(out) == 0 || median[p.title] > median[out[0].title]) {
				out = []panel{p}
			}
		}
		if inTime >= 0 {
			out = append(out, panels[inTime])
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}
