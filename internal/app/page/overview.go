package page

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
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
	Wrong   []remarks.Remark
	Notes   []string
	Due     []panel // nil: the queues do not tell
	Rates   *deliveries
	Workers []worker
	Began   time.Time // of this process
}

// A fact is a number with a name.
type fact struct {
	Name, Value, Link string
	Note              any // a text, or one with times
	Wrong             bool
}

type deliveries struct {
	hour
	Panels []panel
}

type worker struct {
	Backend string
	Text    string
	Wrong   bool
}

func (p *Page) overview(w http.ResponseWriter, r *http.Request, v *visitor) {
	l := p.Figures.look(r.Context())
	p.show(w, http.StatusOK, "overview", frame{Title: "Overview", At: "/", Visitor: v, Live: true, Content: p.overviewOf(l)})
}

func (p *Page) overviewOf(l look) overview {
	o := overview{look: l, Began: p.began}
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
	for _, e := range l.Entries {
		if e.Parked > 0 && l.Parked == nil { // which has its queue too
			o.Wrong = append(o.Wrong, remarks.Remark{
				Text: fmt.Sprintf("%s published to %s could not be passed on", cli.Count(e.Parked, "message"), cli.Shown(e.Exchange)), Undelivered: true,
			})
		}
	}
	for _, remark := range remarks.Of(l.Status) {
		switch {
		case remark.Wrong:
			o.Wrong = append(o.Wrong, remark)
		case !remark.Good:
			o.Notes = append(o.Notes, remark.Text)
		}
	}
	return o
}

// backend adds what a backend tells.
func (o *overview) backend(b status.Backend) {
	if b.Due != nil {
		o.Due = duePanels(b.Due, o.Time)
		if n, since := b.Overdue(); n != nil && *n > 0 && o.Time.Sub(since) >= time.Minute {
			o.Wrong = append(o.Wrong, remarks.Remark{Text: fmt.Sprintf("%s overdue, for %s: see whether a controller runs, and what its log says",
				messages(*n), cli.Age(since, o.Time))})
		}
	}
	if b.Controllers == nil {
		return
	}
	w := worker{Backend: b.Name, Text: cli.Count(*b.Controllers, "controller") + " at work"}
	switch {
	case *b.Controllers == 0:
		w.Text, w.Wrong = remarks.NoController, true
		o.Wrong = append(o.Wrong, remarks.Remark{Text: b.Name + ": " + remarks.NoController})
	case *b.Controllers > 1 && b.Unread != nil:
		w.Text += ": one leads, the others stand by"
	}
	o.Workers = append(o.Workers, w)
}

// facts are the numbers that one looks at first.
func facts(s status.Status, rates *deliveries) []fact {
	list := []fact{waitingFact(s)}
	if s.Waiting == nil || *s.Waiting > 0 {
		list[0].Link = waitingPath
	}
	undelivered := func(name string, n int, note string) {
		f := fact{Name: name, Value: format.Thousands(n), Note: note, Wrong: n > 0}
		if n > 0 {
			f.Link = undeliveredPath
		}
		list = append(list, f)
	}
	if s.Unroutable != nil {
		undelivered("unroutable", s.Unroutable.Messages, "their destination was gone")
	}
	if s.Parked != nil {
		n := 0
		for _, q := range s.Parked {
			n += q.Messages
		}
		undelivered("parked", n, "given up, kept for a person")
	}
	if rates != nil {
		list = append(list, fact{Name: "delivered a second", Value: perSecond(rates.Now), Note: "by this process, in the last minute"})
		late := fact{Name: "late, at most", Value: "–", Note: "nothing was delivered in the last hour"}
		if rates.N > 0 {
			late.Value, late.Note = brief(rates.Late), "in the last hour"
		}
		list = append(list, late)
	}
	return list
}

func waitingFact(s status.Status) fact {
	f := fact{Name: "waiting", Value: "unknown", Note: "not all of it can be counted"}
	if s.Waiting != nil {
		f.Value, f.Note = format.Thousands(*s.Waiting), "messages"
		for _, b := range s.Backends {
			if about := remarks.About(b); about != "" {
				f.Note = "messages, " + strings.TrimSpace(about)
			}
		}
	}
	return f
}

// functions are those of the templates.
var functions = template.FuncMap{
	"number": format.Thousands,
	"when":   when,
	"clock":  func(t time.Time) template.HTML { return stamp(t, clockLayout) },
	"name":   func(text any) string { return cli.Shown(fmt.Sprint(text)) },
	"add":    func(a, b int) int { return a + b },
	"rate":   perSecond,
	"size":   cli.Size,
	"json": func(value any) string {
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return fmt.Sprint(value)
		}
		return string(text)
	},
}
