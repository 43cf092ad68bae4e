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

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template shows.
type page struct {
	*Report
	Style    template.CSS
	Heading  string
	When     string
	Verdict  verdict
	Legend   string
	Named    []Subject
	Sections []section
	Facts    []fact
}

// A section is one scenario.
type section struct {
	Scenario
	ID     string
	Tables []shown
}

// shown is a table of runs with its charts.
type shown struct {
	Grid    grid
	Figures []figure
}

type fact struct{ Name, Value string }

// WriteHTML writes report.html, one file that loads nothing. The error is that of w.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{
		Report: r, Style: template.CSS(pageStyle),
		Heading: fmt.Sprintf("Delayed messages on %s %s", r.Broker.Product, r.Broker.Version),
		When:    fmt.Sprintf("%s, %s, in %s", r.Started.UTC().Format("2 January 2006, 15:04 UTC"), r.Broker.How, took(r)),
		Verdict: verdictOf(r), Legend: legend(r), Named: r.named(), Facts: facts(r),
	}
	for i, t := range tables(r) {
		at := slices.IndexFunc(p.Sections, func(s section) bool { return s.Name == t.scenario.Name })
		if at < 0 {
			at = len(p.Sections)
			p.Sections = append(p.Sections, section{Scenario: t.scenario, ID: slug(t.scenario.Name)})
		}
		p.Sections[at].Tables = append(p.Sections[at].Tables, shown{t.grid, figuresOf(fmt.Sprintf("t%d", i+1), t)})
	}
	return pageTemplate.Execute(w, p)
}

func took(r *Report) string { return duration(1000 * r.Seconds).Round(time.Second).String() }

// facts are what somebody needs who would repeat it.
func facts(r *Report) []fact {
	out := []fact{
		{"broker", list(fmt.Sprintf("%s %s", r.Broker.Product, r.Broker.Version), r.Broker.How, r.Broker.Platform)},
		{"machine", list(fmt.Sprintf("%d cores", r.Machine.CPUs), r.Machine.Model, r.Machine.OS+"/"+r.Machine.Arch, r.Machine.Kernel, r.Machine.Go)},
		{"began", r.Started.UTC().Format(time.RFC3339)},
		{"took", took(r)},
	}
	if r.Broker.Measured {
		out = append(out, fact{"idle broker", format.Figure(r.Broker.IdleCPU) + " % of a core, subtracted from its CPU"})
	} else {
		out = append(out, fact{"broker's CPU and memory", "not known: it is not ours to measure"})
	}
	if r.Broker.MemorySource != "" {
		out = append(out, fact{"broker's memory", r.Broker.MemorySource})
	}
	if r.GeneratorPerS > 0 {
		out = append(out, fact{"without a broker", fmt.Sprintf("%s msg/s, %s µs of own CPU a message",
			format.Figure(r.GeneratorPerS), format.Figure(r.GeneratorCPU))})
	}
	if r.Machine.SyncMS > 0 {
		out = append(out, fact{"4 KiB written and synced in", format.Figure(r.Machine.SyncMS) + " ms"})
	}
	if r.Machine.Steal > 0 {
		out = append(out, fact{"taken by other machines", format.Figure(r.Machine.Steal) + " % of the processors' time"})
	}
	return append(out, fact{"schema", fmt.Sprintf("report.json version %d", r.SchemaVersion)})
}

// list joins what is known.
func list(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// slug makes a name fit for an id.
func slug(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
}
