package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lib/format"
)

//go:embed page.gohtml
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

type page struct {
	*Report
	Heading, When, Legend string
	Named                 []Subject
	Tables                []shown
	Facts                 []fact
}

type shown struct {
	table
	ID     string
	Charts []template.HTML
}

// Head is the columns' names and units.
func (s shown) Head() (out []fact) {
	for _, m := range s.Columns {
		out = append(out, fact{m.name, m.unit})
	}
	return out
}

type fact struct{ Name, Value string }

// WriteHTML writes report.html, one file that loads nothing and runs no script.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{
		Report: r, Heading: fmt.Sprintf("Delayed messages on %s %s", r.Broker.Product, r.Broker.Version),
		When: fmt.Sprintf("%s, %s, in %s", r.Started.UTC().Format("2 January 2006, 15:04 UTC"), r.Broker.How,
			time.Duration(r.Seconds*float64(time.Second)).Round(time.Second)),
		Legend: r.legend(), Named: r.named(), Facts: r.facts(),
	}
	for _, t := range tables(r, true) {
		one := shown{table: t, ID: t.Name + "-" + t.QueueType}
		for _, c := range charts {
			if c.scenario != t.Name {
				continue
			}
			svg, err := c.svg(t)
			if err != nil {
				return err
			}
			if svg != "" {
				one.Charts = append(one.Charts, svg)
			}
		}
		p.Tables = append(p.Tables, one)
	}
	return pageTemplate.Execute(w, p)
}

func (r *Report) facts() []fact {
	list := func(parts ...string) string {
		return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
	}
	out := []fact{
		{"broker", list(fmt.Sprintf("%s %s", r.Broker.Product, r.Broker.Version), r.Broker.How, r.Broker.Platform)},
		{"machine", list(fmt.Sprintf("%d cores", r.Machine.CPUs), r.Machine.Model, r.Machine.OS+"/"+r.Machine.Arch, r.Machine.Kernel, r.Machine.Go)},
	}
	if r.Broker.Measured {
		out = append(out, fact{"idle broker", format.Figure(r.Broker.IdleCPU) + " % of a core, subtracted from its CPU"})
	} else {
		out = append(out, fact{"broker's CPU and memory", "not known: the broker is not ours to measure"})
	}
	return out
}
