package page

import (
	"cmp"
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

const waitingPath = "/page/waiting"

type waiting struct {
	look
	Facts   []fact
	Parts   []waitingPart
	Others  []status.Queue
	Tickets bool // there are such
}

type waitingPart struct {
	Backend, Says string
	Head          string // of the first column
	Slots         bool   // when it is due is known
	Rows          []waitingRow
}

type waitingRow struct {
	What            template.HTML
	When, Queue     string
	Messages, Share int // of the fullest, in thousandths
	Wrong           bool

	order int64
}

func (p *Page) waiting(w http.ResponseWriter, r *http.Request, v *visitor) {
	l := p.Figures.look(r.Context())
	content := waitingOf(l)
	content.Tickets = p.Tickets != nil
	p.show(w, http.StatusOK, "waiting", frame{Title: "Waiting", At: waitingPath, Visitor: v, Live: true, Content: content})
}

func waitingOf(l look) waiting {
	w := waiting{look: l}
	if !l.Known {
		return w
	}
	w.Facts = waitingFacts(l.Status)
	for _, b := range l.Backends {
		w.Parts = append(w.Parts, partOf(b, l.Time))
	}
	if l.Misrouted != nil && l.Misrouted.Messages > 0 {
		w.Others = append(w.Others, *l.Misrouted)
	}
	w.Others = append(w.Others, l.Status.Others...)
	return w
}

// waitingFacts are how many wait, and the next that are due.
func waitingFacts(s status.Status) []fact {
	list := []fact{waitingFact(s)}
	held, controllers := 0, 0
	for _, b := range s.Backends {
		if n, since := b.Overdue(s.Time); n != nil && *n > 0 && s.Time.Sub(since) >= time.Minute {
			list = append(list, fact{Name: "overdue", Value: format.Thousands(*n), Note: "for " + cli.Age(since, s.Time), Wrong: true})
		}
		if b.Held != nil {
			held += *b.Held
			controllers += len(b.Each)
		}
	}
	if held > controllers { // each may hold a message of its own
		list = append(list, fact{Name: "with controllers", Value: format.Thousands(held), Note: "in memory, due within minutes; not counted as waiting"})
	}
	return append(list, nextFact(s))
}

// nextFact is when the next message is due, as far as queues tell.
func nextFact(s status.Status) fact {
	next := fact{Name: "next due", Value: "–", Note: "nothing waits"}
	var due *status.Due
	var wait *status.Queue
	for _, b := range s.Backends {
		if b.Waiting == nil || *b.Waiting > 0 {
			next.Note = "the queues do not tell"
		}
		for i := range b.Due {
			if d := &b.Due[i]; due == nil || d.From.Before(due.From) {
				due = d
			}
		}
		for i := range b.Queues {
			if q := &b.Queues[i]; q.Wait > 0 && q.Messages > 0 && (wait == nil || q.Wait < wait.Wait) {
				wait = q
			}
		}
	}
	switch {
	case due != nil && due.From.After(s.Time):
		next.Value, next.Note = cli.Ago(due.From, s.Time), "at "+dated(due.From, s.Time, clockLayout)+", or soon after"
	case due != nil:
		next.Value, next.Note = "now", "until "+dated(due.To, s.Time, clockLayout)
	case wait != nil:
		next.Value, next.Note = "≤ "+remarks.Wait(*wait), "then one leaves its queue, and may wait in another"
	}
	return next
}

func partOf(b status.Backend, now time.Time) waitingPart {
	p := waitingPart{Backend: b.Name, Head: "stays", Slots: b.Due != nil}
	filled, most := 0, 0
	for _, q := range b.Queues {
		if q.Messages == 0 {
			continue
		}
		filled++
		most = max(most, q.Messages)
		p.Rows = append(p.Rows, rowOf(q, now))
	}
	switch {
	case b.Waiting == nil:
		p.Says = "How many wait is not known: the plugin's messages are in no queue. delayer migrate assess counts them."
	case p.Slots:
		p.Head = "due"
		p.Says = fmt.Sprintf("%s in %d of %s. A slot is a queue for a stretch of time. What was cancelled is counted until its slot is read.",
			messages(*b.Waiting), filled, cli.Count(len(b.Queues), "queue"))
	default:
		p.Says = fmt.Sprintf("%s in %d of %s. After its time in a queue a message goes on, to its destination or to another queue: when it is due, queues do not tell.",
			messages(*b.Waiting), filled, cli.Count(len(b.Queues), "queue"))
	}
	for i := range p.Rows {
		p.Rows[i].Share = max(4, p.Rows[i].Messages*1000/most)
	}
	slices.SortFunc(p.Rows, func(a, b waitingRow) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Queue, b.Queue))
	})
	return p
}

// rowOf names a queue for people: by when its messages are due, or how long they stay.
func rowOf(q status.Queue, now time.Time) waitingRow {
	r := waitingRow{Queue: q.Name, Messages: q.Messages}
	switch {
	case q.From != nil:
		r.What, r.When, r.order = stretch(*q.From, *q.To, now), cli.Ago(*q.From, now), q.From.UnixMilli()
		switch {
		case !q.To.After(now):
			r.Wrong = now.Sub(*q.From) >= time.Minute
			r.When = "overdue, for " + cli.Age(*q.From, now)
		case !q.From.After(now):
			r.When = "now"
		}
	case q.Intake:
		r.What, r.When = "at once", "to a controller"
	default:
		r.When, r.order = "within "+remarks.Wait(q), q.Wait
		r.What = template.HTML(remarks.Wait(q)) // a duration
	}
	return r
}

func messages(n int) string {
	return format.Thousands(n) + strings.TrimPrefix(cli.Count(n, "message"), fmt.Sprint(n))
}
