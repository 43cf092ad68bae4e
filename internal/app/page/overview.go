package page

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/remarks"
	"github.com/delayer-go/delayer/internal/lib/format"
	"github.com/delayer-go/delayer/status"
)

// overview is the first page.
type overview struct {
	look
	Facts   []fact
	Wrong   []string
	Notes   []string
	Due     []panel // nil: the queues do not tell
	Overdue string
	Rough   []roughRows
	Rates   *deliveries
	Workers []worker
}

// A fact is a number with a name.
type fact struct {
	Name, Value, Note, Link string
	Wrong                   bool
}

type roughRows struct {
	Backend string
	Rows    []rough
}

type deliveries struct {
	hour
	Panels []panel
}

// A worker is what is at work for a backend.
type worker struct {
	Backend string
	Text    string
	Wrong   bool
	Each    []status.Controller
}

func (p *Page) overview(w http.ResponseWriter, r *http.Request, v *visitor) {
	l := p.Figures.look(r.Context())
	p.show(w, http.StatusOK, "overview", frame{Title: "Overview", At: "/", Visitor: v, Live: true, Content: p.overviewOf(l)})
}

func (p *Page) overviewOf(l look) overview {
	o := overview{look: l}
	if p.Rates.watched {
		h := p.Rates.hour()
		o.Rates = &deliveries{hour: h, Panels: ratePanels(h)}
	}
	if !l.Known {
		return o
	}
	for _, b := range l.Backends {
		o.backend(b)
	}
	o.Facts = facts(l.Status, o.Rates)
	for _, remark := range remarks.Of(l.Status) {
		if remark.Wrong {
			o.Wrong = append(o.Wrong, remark.Text)
		} else {
			o.Notes = append(o.Notes, remark.Text)
		}
	}
	return o
}

// backend adds what a backend tells.
func (o *overview) backend(b status.Backend) {
	switch {
	case b.Due != nil:
		o.Due = duePanels(b.Due, o.Time)
		if n, since := b.Overdue(o.Time); n != nil && *n > 0 && o.Time.Sub(since) >= time.Minute {
			o.Wrong = append(o.Wrong, fmt.Sprintf("%s overdue, for %s: see whether a controller runs, and what its log says",
				cli.Count(*n, "message"), cli.Age(since, o.Time)))
		}
	case slices.ContainsFunc(b.Queues, func(q status.Queue) bool { return q.Wait > 0 }):
		o.Rough = append(o.Rough, roughRows{b.Name, roughly(b.Queues)})
	}
	if b.Controllers == nil {
		return
	}
	w := worker{Backend: b.Name, Each: b.Each, Text: cli.Count(*b.Controllers, "controller") + " at work"}
	switch {
	case *b.Controllers == 0:
		w.Text, w.Wrong = remarks.NoController, true
		o.Wrong = append(o.Wrong, b.Name+": "+remarks.NoController)
	case *b.Controllers > 1:
		w.Text += ": one of each shard leads, the others stand by"
	}
	o.Workers = append(o.Workers, w)
}

// facts are the numbers that one looks at first.
func facts(s status.Status, rates *deliveries) []fact {
	waiting := fact{Name: "waiting", Value: "unknown", Note: "not all of it can be counted"}
	if s.Waiting != nil {
		waiting.Value, waiting.Note = format.Thousands(*s.Waiting), "messages"
		if *s.Waiting > 0 && slices.ContainsFunc(s.Backends, func(b status.Backend) bool { return b.Due != nil }) {
			waiting.Note = "messages, at most: cancelled ones are counted until their slot is read"
		}
	}
	list := []fact{waiting}
	if s.Unroutable != nil {
		list = append(list, fact{Name: "unroutable", Value: format.Thousands(s.Unroutable.Messages), Note: "their destination was gone", Link: undeliveredPath, Wrong: s.Unroutable.Messages > 0})
	}
	if s.Parked != nil {
		n := 0
		for _, q := range s.Parked {
			n += q.Messages
		}
		list = append(list, fact{Name: "parked", Value: format.Thousands(n), Note: "given up, kept for a person", Link: undeliveredPath, Wrong: n > 0})
	}
	if rates != nil {
		list = append(list, fact{Name: "delivered a second", Value: perSecond(rates.Now), Note: "by this process, in the last minute"})
		late := fact{Name: "late, p99", Value: "–", Note: "nothing was delivered in the last hour"}
		if rates.N > 0 {
			late.Value, late.Note = brief(rates.P99), "in the last hour; half within "+brief(rates.P50)
		}
		list = append(list, late)
	}
	return list
}

// functions are those of the templates.
var functions = template.FuncMap{
	"number": format.Thousands,
	"when":   when,
	"clock":  func(t time.Time) template.HTML { return stamp(t, t.UTC().Format("15:04:05")+" UTC") },
	"tick":   func(t time.Time, layout string) template.HTML { return stamp(t, t.UTC().Format(layout)) },
	"ago":    func(t, now time.Time) string { return cli.Ago(t, now) },
	"short":  func(text string) string { before, _, _ := strings.Cut(text, " -> "); return before },
	"name":   cli.Shown,
}

// stamp is a time for browsers. The text is ours.
func stamp(t time.Time, text string) template.HTML {
	return template.HTML(fmt.Sprintf(`<time datetime=%q>%s</time>`, t.UTC().Format(time.RFC3339), template.HTMLEscapeString(text)))
}

// when is a time with how far it is from now.
func when(t, now time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return stamp(t, t.UTC().Format("2 Jan 15:04:05")+" UTC, "+cli.Ago(t, now))
}
