package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/internal/format"
	"github.com/delayer-go/delayer/bench/report"
)

//go:embed page.gohtml
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"first": func(i int) bool { return i == 0 },
	"slug":  slug,
}).Parse(pageText))

// page is what the template shows.
type page struct {
	Style    template.CSS
	Heading  string
	When     string
	Verdict  report.Verdict
	How      string
	Job      []string
	Legend   string
	Command  string
	Sections []section
	Facts    []fact
	Problems []string
	Skipped  []bench.Skip
	Partial  bool
}

// A section is one scenario.
type section struct {
	ID, Name, Question, Setup string
	Tables                    []shown
}

// shown is a table of runs, drawn.
type shown struct {
	ID      string
	Grid    report.Grid
	Figures []figure
	Drawn   bool // by at least one figure
}

type fact struct{ Name, Value string }

// Write writes the report as one HTML file. The error is that of w.
func Write(w io.Writer, r *bench.Report) error {
	return pageTemplate.Execute(w, newPage(r))
}

func newPage(r *bench.Report) page {
	p := page{
		Style:   template.CSS(pageStyle),
		Heading: fmt.Sprintf("Delayed messages on %s %s", r.Broker.Product, r.Broker.Version),
		When: fmt.Sprintf("%s, %s, in %s", r.Started.UTC().Format("2 January 2006, 15:04 UTC"), r.Broker.How,
			time.Duration(r.Seconds*float64(time.Second)).Round(time.Second)),
		Verdict: report.VerdictOf(r), How: report.How, Job: report.Job(), Legend: report.Legend(r), Command: r.Command, Facts: facts(r),
		Problems: r.Problems(), Skipped: r.Skipped, Partial: r.Partial,
	}
	for i, table := range report.Tables(r) {
		p.add(fmt.Sprintf("t%d", i+1), table)
	}
	return p
}

// add puts a table into the section of its scenario.
func (p *page) add(id string, t report.Table) {
	var own *section
	for i := range p.Sections {
		if p.Sections[i].Name == t.Scenario.Name {
			own = &p.Sections[i]
		}
	}
	if own == nil {
		p.Sections = append(p.Sections, section{
			ID: slug(t.Scenario.Name), Name: t.Scenario.Name, Question: t.Scenario.Question, Setup: t.Scenario.Setup,
		})
		own = &p.Sections[len(p.Sections)-1]
	}
	s := shown{ID: id, Grid: t.Grid, Figures: figuresOf(id, t)}
	for _, f := range s.Figures {
		s.Drawn = s.Drawn || len(f.Pictures) > 0
	}
	own.Tables = append(own.Tables, s)
}

// facts are what somebody needs who would repeat it.
func facts(r *bench.Report) []fact {
	out := []fact{
		{"broker", fmt.Sprintf("%s %s, %s", r.Broker.Product, r.Broker.Version, r.Broker.How)},
		{"machine", fmt.Sprintf("%d cores, %s/%s, %s", r.Machine.CPUs, r.Machine.OS, r.Machine.Arch, r.Machine.Go)},
		{"began", r.Started.UTC().Format(time.RFC3339)},
		{"took", time.Duration(r.Seconds * float64(time.Second)).Round(time.Second).String()},
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
	return append(out, fact{"schema", fmt.Sprintf("report.json version %d", r.SchemaVersion)})
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
