package page

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/report"
)

//go:embed picture.css
var pictureStyle string

// ErrNoPicture is returned by WritePicture for a report that holds nothing to draw.
var ErrNoPicture = errors.New("nothing for a picture: it takes runs of hol or hol-mix, or of accuracy with the broker's CPU (delayer-bench --scenario accuracy,hol)")

// Sizes of the picture, in its own units, which are pixels where it is not scaled.
const (
	pictureMargin = 28.0
	pictureGap    = 40.0
	pictureTop    = 74.0
)

// WritePicture writes the picture that matters most, for a README: whose long delays block short
// ones, and what a message costs the broker. It is SVG with a background of its own, legible on
// light and dark pages. It shows the report's first type of queue. The error is ErrNoPicture, or
// that of w.
func WritePicture(w io.Writer, r *bench.Report) error {
	columns := pictureColumns(r)
	if len(columns) == 0 {
		return ErrNoPicture
	}
	width, height := 2*pictureMargin-pictureGap, 0.0
	for _, column := range columns {
		width += panelWide + pictureGap
		height = max(height, column.height)
	}
	height += pictureTop + 52
	var c canvas
	size := fmt.Sprintf(`viewBox="0 0 %s %s" width="%s" height="%s"`, num(width), num(height), num(width), num(height))
	c.picture("delayer", "Delayed messages on "+r.Broker.Product, pictureWords(columns), size)
	fmt.Fprintf(&c, "<style>%s</style>", pictureStyle)
	fmt.Fprintf(&c, `<rect class="card" x="0.5" y="0.5" width="%s" height="%s" rx="8"/>`, num(width-1), num(height-1))
	x := pictureMargin
	for _, column := range columns {
		column.draw(&c, x)
		x += panelWide + pictureGap
	}
	c.text("note", "start", num(pictureMargin), height-20, fmt.Sprintf("%s %s, %d cores, %s queues, %s. Measured with delayer-bench.",
		r.Broker.Product, r.Broker.Version, r.Machine.CPUs, r.Runs[0].QueueType, r.Started.UTC().Format("2 January 2006")))
	_, err := io.WriteString(w, string(c.done())+"\n")
	return err
}

// A column is one part of the picture.
type column struct {
	title, key, words string
	height            float64
	inside            func(*canvas)
}

func (p column) draw(c *canvas, x float64) {
	c.text("title", "start", num(x), 36, p.title)
	c.text("note", "start", num(x), 54, p.key)
	fmt.Fprintf(c, `<svg x="%s" y="%s" width="%s" height="%s">`, num(x), num(pictureTop), num(panelWide), num(p.height))
	p.inside(c)
	c.end()
}

func pictureWords(columns []column) string {
	words := ""
	for _, column := range columns {
		words += column.title + ": " + column.words + " "
	}
	return words
}

// pictureColumns are the panels of what blocks and of what to choose, and the bars of the cost.
func pictureColumns(r *bench.Report) []column {
	var out []column
	blocking := panelsOf(r)
	for i, p := range blocking {
		title, key := "Does a long delay block short ones?", "each dot is a message; in time is the diagonal"
		if i > 0 {
			title, key = "", ""
		}
		out = append(out, column{title, key, p.words, panelHigh, p.into})
	}
	if rows := costRows(r); len(rows) > 0 {
		out = append(out, column{"What a message costs the broker", "its processor time", barWords(rows),
			barsHigh(rows), func(c *canvas) { drawBars(c, rows) }})
	}
	return out
}

// panelsOf are that of a subject that blocks and of one that does not, from the scenario that shows
// it best.
func panelsOf(r *bench.Report) []panel {
	for _, scenario := range []string{"hol-mix", "hol"} {
		for _, t := range report.Tables(r) {
			if t.Scenario.Name != scenario || t.QueueType != r.Runs[0].QueueType {
				continue
			}
			if panels := contrast(blockingPanels("b", t), t); len(panels) > 0 {
				return panels
			}
		}
	}
	return nil
}

// contrast picks the panel of the subject that is most late, if one is late, and the first that is
// in time.
func contrast(panels []panel, t report.Table) []panel {
	runs := map[string]bench.Run{}
	for _, row := range t.Rows {
		runs[row.Name] = row.First()
	}
	var late, inTime []panel
	for _, p := range panels {
		if report.Late(runs[p.title]) {
			late = append(late, p)
		} else {
			inTime = append(inTime, p)
		}
	}
	slices.SortStableFunc(late, func(a, b panel) int {
		return cmp.Compare(runs[b.title].Lateness.P50, runs[a.title].Lateness.P50)
	})
	return append(late[:min(1, len(late))], inTime[:min(1, len(inTime))]...)
}

// mostBars keeps the picture's columns about equally high.
const mostBars = 6

func costRows(r *bench.Report) []bar {
	for _, t := range report.Tables(r) {
		if t.Scenario.Name == "accuracy" && t.QueueType == r.Runs[0].QueueType {
			rows := brokerCPU.rows(t)
			return rows[:min(mostBars, len(rows))]
		}
	}
	return nil
}
