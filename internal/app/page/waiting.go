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

// changeOver is how far back changes are told, if somebody looked then.
const changeOver = 5 * time.Minute

// A history is what waited when somebody looked, in the last minutes and once before that.
type history []counts

type counts struct {
	at      time.Time
	waiting *int
	queues  map[place]int // of those that held something
}

// A place is a queue, or one turn of a slot: its queue serves other times in other turns.
type place struct {
	queue string
	from  int64
}

func placeOf(q status.Queue) place {
	if q.From != nil {
		return place{q.Name, q.From.Unix()}
	}
	return place{queue: q.Name}
}

// add is the history with one more look. The first in it is what changes are told from.
func (h history) add(s status.Status) history {
	c := counts{at: s.Time, waiting: s.Waiting, queues: map[place]int{}}
	for _, b := range s.Backends {
		for _, q := range b.Queues {
			if q.Messages > 0 {
				c.queues[placeOf(q)] = q.Messages
			}
		}
	}
	if len(h) > 0 && !s.Time.After(h[len(h)-1].at) { // the clock was set back
		h = nil
	}
	h = append(h, c)
	for len(h) > 2 && h[0].at.Before(s.Time.Add(-changeOver)) {
		h = h[1:]
	}
	return slices.Clone(h) // others read the one before
}

// waiting is the page of what waits.
type waiting struct {
	look
	Facts    []fact
	Over     string // how far back changes are told; "": this is the first look
	ByNumber bool   // the fullest queues first
	Parts    []waitingPart
	Others   []status.Queue
	Tickets  bool // there are such
}

// A waitingPart is what waits in a backend.
type waitingPart struct {
	Backend, Says string
	Head          string // of the first column
	Slots         bool   // when it is due is known
	Rows          []waitingRow
}

// A waitingRow is a queue.
type waitingRow struct {
	What            template.HTML
	When, Queue     string
	Messages, Share int // of the fullest, in thousandths
	Change          string
	Wrong           bool

	order int64
}

func (p *Page) waiting(w http.ResponseWriter, r *http.Request, v *visitor) {
	l := p.Figures.look(r.Context())
	content := waitingOf(l, r.FormValue("by") == "number")
	content.Tickets = p.Tickets.limit() > 0
	p.show(w, http.StatusOK, "waiting", frame{Title: "Waiting", At: waitingPath, Visitor: v, Live: true, Again: l.Coming, Content: content})
}

func waitingOf(l look, byNumber bool) waiting {
	w := waiting{look: l, ByNumber: byNumber}
	if !l.Known {
		return w
	}
	var before *counts
	if len(l.History) > 1 {
		before = &l.History[0]
		w.Over = brief(l.Time.Sub(before.at))
	}
	w.Facts = waitingFacts(l.Status, before, w.Over)
	for _, b := range l.Backends {
		w.Parts = append(w.Parts, partOf(b, before, l.Time, byNumber))
	}
	if l.Misrouted != nil && l.Misrouted.Messages > 0 {
		w.Others = append(w.Others, *l.Misrouted)
	}
	w.Others = append(w.Others, l.Status.Others...)
	return w
}

// waitingFacts are how many wait, the next that are due, and how that changes.
func waitingFacts(s status.Status, before *counts, over string) []fact {
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
	list = append(list, nextFact(s))
	change := fact{Name: "change", Value: "–", Note: "known from the second look on"}
	switch {
	case s.Waiting == nil:
		change.Note = "not known, as what waits is not"
	case before != nil && before.waiting != nil:
		more := *s.Waiting - *before.waiting
		change.Value = signed(more)
		change.Note = fmt.Sprintf("in %s: %s a second", over, signedRate(float64(more)/s.Time.Sub(before.at).Seconds()))
	}
	return append(list, change)
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

func partOf(b status.Backend, before *counts, now time.Time, byNumber bool) waitingPart {
	p := waitingPart{Backend: b.Name, Head: "stays", Slots: b.Due != nil}
	filled := 0
	most := 0
	for _, q := range b.Queues {
		if q.Messages == 0 {
			continue
		}
		filled++
		most = max(most, q.Messages)
		r := rowOf(q, now)
		if before != nil {
			r.Change = signed(q.Messages - before.queues[placeOf(q)])
		}
		p.Rows = append(p.Rows, r)
	}
	switch {
	case b.Waiting == nil:
		p.Says = "How many wait is not known: the plugin's messages are in no queue. delayer migrate status counts them."
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
		byTime := cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Queue, b.Queue))
		if byNumber {
			return cmp.Or(cmp.Compare(b.Messages, a.Messages), byTime)
		}
		return byTime
	})
	return p
}

// rowOf names a queue for people: by when its messages are due, or how long they stay.
func rowOf(q status.Queue, now time.Time) waitingRow {
	r := waitingRow{Queue: q.Name, Messages: q.Messages, Change: "–"}
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

// signed is a change.
func signed(n int) string {
	switch {
	case n == 0:
		return "0"
	case n > 0:
		return "+" + format.Thousands(n)
	}
	return "−" + format.Thousands(-n)
}

func signedRate(r float64) string {
	switch text := perSecond(max(r, -r)); {
	case text == "0":
		return text
	case r > 0:
		return "+" + text
	default:
		return "−" + text
	}
}
