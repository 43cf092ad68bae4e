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
	Slots         bool // when it is due is known
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
	w.Facts = []fact{waitingFact(l.Status), nextFact(l.Status)}
	for _, b := range l.Backends {
		w.Parts = append(w.Parts, partOf(b, l.Time))
	}
	if l.Misrouted != nil && l.Misrouted.Messages > 0 {
		w.Others = append(w.Others, *l.Misrouted)
	}
	w.Others = append(w.Others, l.Status.Others...)
	return w
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
		next.Value, next.Note = cli.Ago(due.From, s.Time), "at "+dated(due.From, s.Time, clockLayout)
	case due != nil:
		next.Value, next.Note = "now", "until "+dated(due.To, s.Time, clockLayout)
	case wait != nil:
		next.Value, next.Note = "≤ "+remarks.Wait(*wait), "then one leaves its queue, and may wait in another"
	}
	return next
}

func partOf(b status.Backend, now time.Time) waitingPart {
	p := waitingPart{Backend: b.Name, Slots: b.Due != nil}
	filled, most := 0, 0
	for _, q := range b.Queues {
		if q.Messages > 0 && b.Unread == nil {
			filled++
			r := waitingRow{What: "at once", Queue: q.Name, Messages: q.Messages, order: q.Wait}
			if !q.Intake {
				r.What = template.HTML(remarks.Wait(q)) // a duration
			}
			p.Rows = append(p.Rows, r)
		}
	}
	for _, d := range remarks.Dues(b) {
		p.Rows = append(p.Rows, rowOfDue(d, now))
	}
	if b.Unread != nil && *b.Unread > 0 {
		p.Rows = append(p.Rows, waitingRow{What: "in bundles", When: "not read by a controller yet", Messages: *b.Unread})
	}
	for _, r := range p.Rows {
		most = max(most, r.Messages)
	}
	switch {
	case b.Waiting == nil && b.Unread != nil:
		p.Says = "How many wait is not known: the overview says why."
	case b.Waiting == nil && len(b.Queues) > 0:
		p.Says = "How many wait is not known: the queues hide their messages, and the management API alone counts them. The overview says what it answers."
	case b.Waiting == nil:
		p.Says = "How many wait is not known: the plugin's messages are in no queue. delayer migrate assess counts them."
	case p.Slots:
		p.Says = remarks.About(b) + messages(*b.Waiting) + ". The controller that leads counts them, also those that it holds."
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

func rowOfDue(d status.Due, now time.Time) waitingRow {
	r := waitingRow{What: stretch(d.From, d.To, now), When: cli.Ago(d.From, now), Messages: d.Messages, order: d.From.UnixMilli()}
	switch {
	case remarks.IsOverdue(d):
		r.Wrong = now.Sub(d.From) >= time.Minute
		r.When = "overdue, for " + cli.Age(d.From, now)
	case !d.From.After(now):
		r.When = "now"
	}
	return r
}

func messages(n int) string {
	return format.Thousands(n) + strings.TrimPrefix(cli.Count(n, "message"), fmt.Sprint(n))
}
