package page

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/app/cli"
)

const undeliveredPath = "/page/undelivered"

// A pile is a queue of messages that were not delivered.
type pile struct {
	Queue, What string
	Messages    int
}

// piles are the queues that the page shows, and no others: their names come in requests.
func (l look) piles() (list []pile) {
	add := func(queue, what string, messages int) {
		if !slices.ContainsFunc(list, func(p pile) bool { return p.Queue == queue }) {
			list = append(list, pile{queue, what, messages})
		}
	}
	if l.Unroutable != nil {
		add(l.Unroutable.Name, "unroutable: their destination was gone", l.Unroutable.Messages)
	}
	for _, e := range l.Entries {
		add(l.Prefix+".serve.parked."+e.Exchange, "parked by delayer serve: they could not be passed on", e.Parked)
	}
	for _, q := range l.Parked {
		add(q.Name, "parked: they were given up", q.Messages)
	}
	return list
}

func (p *Page) undelivered(w http.ResponseWriter, r *http.Request, v *visitor) {
	l := p.Figures.look(r.Context())
	p.show(w, http.StatusOK, "undelivered", frame{Title: "Not delivered", At: undeliveredPath, Visitor: v, Live: true, Again: l.Coming, Content: struct {
		look
		Piles []pile
		Job   *job
	}{l, l.piles(), p.Backlog.last()}})
}

// queue is that of a request, if the page shows it.
func (p *Page) queue(w http.ResponseWriter, r *http.Request, v *visitor) (string, bool) {
	name, l := r.FormValue("queue"), p.Figures.known(r.Context())
	switch {
	case slices.ContainsFunc(l.piles(), func(one pile) bool { return one.Queue == name }):
		return name, true
	case !l.Known && l.Err == nil:
		p.fail(w, v, http.StatusServiceUnavailable, "The queues are being read. Load the page again.")
	case !l.Known:
		p.fail(w, v, http.StatusServiceUnavailable, "The broker does not answer. %s", l.Why())
	default:
		p.fail(w, v, http.StatusNotFound, "The page shows no queue of that name.")
	}
	return "", false
}

// listed is a message in the list.
type listed struct {
	item
	Why, Bytes string
}

// Brief is why it is here, cut for a list.
func (l listed) Brief() string {
	const most = 160
	if text := []rune(l.Why); len(text) > most {
		return string(text[:most]) + "…"
	}
	return l.Why
}

// Elsewhere is the exchange that the message was published to, if that is not where it goes to.
func (l listed) Elsewhere() string {
	if to := "exchange " + cli.Shown(l.Exchange); l.Known && l.Exchange != "" && l.To != to {
		return to
	}
	return ""
}

// listing is what a queue holds.
type listing struct {
	Queue    string
	Messages []listed // some of those that match
	Filter   filter
	Total    int // in the queue
	Sought   int // those that were looked at
	Matching int // of those that were looked at
	From     int // how many of them are before Messages
}

// All is how many messages an action concerns that is for all.
func (l listing) All() int {
	if l.Filter.Any() {
		return l.Matching
	}
	return l.Total
}

// Sure reports whether all of the queue was looked at, where that matters.
func (l listing) Sure() bool { return !l.Filter.Any() || l.Sought >= l.Total }

// Last is the number of the last message that is shown.
func (l listing) Last() int { return l.From + len(l.Messages) }

// Before and After are where the messages before and after these begin; -1: there are none.
func (l listing) Before() int {
	if l.From == 0 {
		return -1
	}
	return max(0, l.From-mostShown)
}

// After is described at Before.
func (l listing) After() int {
	if l.Last() >= min(l.All(), mostSought) || len(l.Messages) < mostShown {
		return -1
	}
	return l.Last()
}

// seek visits the messages that match a filter, among the first mostSought, and returns how many
// messages were looked at, and how many there are.
func (p *Page) seek(ctx context.Context, queue string, f filter, visit func(m *item, why func() (string, error)) error) (sought, total int, err error) {
	matches, err := f.match(p.now())
	if err != nil {
		return 0, 0, err
	}
	total, err = p.Backlog.walk(ctx, queue, false, func(m *item) error {
		sought++
		why := sync.OnceValues(func() (string, error) { return m.why(ctx) })
		match, err := matches(m, why)
		if err == nil && match {
			err = visit(m, why)
		}
		if err == nil && sought == mostSought {
			return errEnough
		}
		return err
	})
	return sought, total, err
}

func (p *Page) list(w http.ResponseWriter, r *http.Request, v *visitor) {
	queue, ok := p.queue(w, r, v)
	if !ok {
		return
	}
	if p.busy(w, v, queue) {
		return
	}
	l := listing{Queue: queue, Filter: filterOf(r.Form)}
	l.From, _ = strconv.Atoi(r.Form.Get("from"))
	l.From = min(max(l.From, 0), mostSought)
	ctx, cancel := context.WithTimeout(r.Context(), lookFor)
	defer cancel()
	var err error
	l.Sought, l.Total, err = p.seek(ctx, queue, l.Filter, func(m *item, why func() (string, error)) error {
		l.Matching++
		if l.Matching <= l.From || len(l.Messages) == mostShown {
			return nil
		}
		text, err := why()
		l.Messages = append(l.Messages, listed{*m, m.reason(text), cli.Size(m.Size)})
		if err == nil && len(l.Messages) == mostShown && !l.Filter.Any() {
			return errEnough
		}
		return err
	})
	if err != nil {
		p.unread(w, v, queue, err)
		return
	}
	p.show(w, http.StatusOK, "queue", frame{Title: queue, At: undeliveredPath, Visitor: v, Selects: v.Act, Content: l})
}

// busy answers that nobody can look at a queue while an action is under way there.
func (p *Page) busy(w http.ResponseWriter, v *visitor, queue string) bool {
	j := p.Backlog.last()
	if j == nil || j.Finished || j.Queue != queue {
		return false
	}
	p.show(w, http.StatusConflict, "job", frame{Title: "Progress", At: undeliveredPath, Visitor: v, Again: true, Content: j})
	return true
}

// unread answers that a queue cannot be read.
func (p *Page) unread(w http.ResponseWriter, v *visitor, queue string, err error) {
	if errors.Is(err, errAge) {
		p.fail(w, v, http.StatusBadRequest, "This is no filter: %v.", err)
		return
	}
	p.fail(w, v, http.StatusServiceUnavailable, "The queue %q cannot be read: %v.", queue, err)
}

// one is a message as it is shown.
type one struct {
	listed
	whole
	Queue, Text, Form string
	Cut               bool
}

// mostText is how much of a body is shown.
const mostText = 64 << 10

func (p *Page) message(w http.ResponseWriter, r *http.Request, v *visitor) {
	queue, ok := p.queue(w, r, v)
	if !ok {
		return
	}
	if p.busy(w, v, queue) {
		return
	}
	found, id := one{Queue: queue}, r.FormValue("id")
	ctx, cancel := context.WithTimeout(r.Context(), lookFor)
	defer cancel()
	file := r.FormValue("as") == "file"
	_, _, err := p.seek(ctx, queue, filter{}, func(m *item, why func() (string, error)) error {
		if m.ID != id {
			return nil
		}
		text, err := why()
		found.listed, found.whole = listed{*m, m.reason(text), cli.Size(m.Size)}, m.whole()
		if !file && len(found.Body) > mostText { // the whole may have 100 MiB
			found.Body = bytes.Clone(found.Body[:mostText+1])
		}
		return cmp.Or(err, errEnough)
	})
	switch {
	case err != nil:
		p.unread(w, v, queue, err)
	case found.ID == "":
		p.fail(w, v, http.StatusNotFound, "That message is not in the queue any more.")
	case file:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="message-`+found.ID+`"`)
		_, _ = w.Write(found.Body)
	default:
		found.Text, found.Form, found.Cut = readable(found.Body)
		p.show(w, http.StatusOK, "message", frame{Title: "A message", At: undeliveredPath, Visitor: v, Content: found})
	}
}

// readable is a body as text: JSON laid out, other text as it is, and what is none in hexadecimal
// digits.
func readable(body []byte) (text, form string, cut bool) {
	var b bytes.Buffer
	if len(body) <= mostText && json.Indent(&b, body, "", "  ") == nil && len(body) > 0 && b.Len() <= 4*mostText {
		return b.String(), "JSON", false
	}
	if cut = len(body) > mostText; cut {
		body = body[:mostText]
	}
	whole := body
	for range utf8.UTFMax - 1 { // a character may be cut
		if cut && !utf8.Valid(whole) {
			whole = whole[:len(whole)-1]
		}
	}
	if utf8.Valid(whole) {
		return string(whole), "text", cut
	}
	return hex.Dump(body), "bytes", cut
}

// An order is what somebody wants done.
type order struct {
	Action, Queue string
	IDs           []string // nil: the oldest Count that match
	Filter        filter
	Count, Sought int
}

// Sending tells retry from delete.
func (a order) Sending() bool { return a.Action == "retry" }

// pick returns what tells the messages of an order.
func (a order) pick(now time.Time) (func(context.Context, *item) (bool, error), error) {
	if a.IDs != nil {
		return func(_ context.Context, m *item) (bool, error) { return slices.Contains(a.IDs, m.ID), nil }, nil
	}
	matches, err := a.Filter.match(now)
	return func(ctx context.Context, m *item) (bool, error) {
		return matches(m, func() (string, error) { return m.why(ctx) })
	}, err
}

const nothingDone = "Nothing was done."

// act asks whether somebody is sure, and begins then. What matches a filter is counted for the
// question.
func (p *Page) act(w http.ResponseWriter, r *http.Request, v *visitor) {
	queue, ok := p.queue(w, r, v)
	if !ok {
		return
	}
	a, sure := order{Action: r.PostForm.Get("action"), Queue: queue}, r.PostForm.Get("sure") == "yes"
	if r.PostForm.Get("which") == "all" {
		a.Filter = filterOf(r.PostForm)
		a.Count, _ = strconv.Atoi(r.PostForm.Get("count"))
	} else {
		a.IDs = slices.Compact(slices.Sorted(slices.Values(r.PostForm["id"])))
		a.Count = len(a.IDs)
	}
	pick, err := a.pick(p.now())
	if err == nil && !sure && a.Filter.Any() {
		a.Count, a.Sought, err = p.count(r.Context(), a)
	}
	switch {
	case err != nil:
		p.unread(w, v, queue, err)
	case a.Action != "retry" && a.Action != "delete" || a.Count < 0:
		p.fail(w, v, http.StatusBadRequest, "This cannot be understood. "+nothingDone)
	case a.Count == 0 && a.Filter.Any():
		p.fail(w, v, http.StatusConflict, "No message matches any more. "+nothingDone)
	case a.Count == 0:
		p.fail(w, v, http.StatusBadRequest, "No message is selected. "+nothingDone)
	case !sure:
		p.show(w, http.StatusOK, "confirm", frame{Title: "Are you sure?", At: undeliveredPath, Visitor: v, Content: a})
	case !p.Backlog.start(job{Who: v.Name, Queue: queue, Action: a.Action, Asked: a.Count}, pick, p.Log):
		p.fail(w, v, http.StatusConflict, "Something is under way already. "+nothingDone+" Wait for it, and try again.")
	default:
		http.Redirect(w, r, "/page/job", http.StatusSeeOther)
	}
}

// count returns how many messages match a filter, and how many were looked at.
func (p *Page) count(ctx context.Context, a order) (matching, sought int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	sought, _, err = p.seek(ctx, a.Queue, a.Filter, func(*item, func() (string, error)) error {
		matching++
		return nil
	})
	return matching, sought, err
}

func (p *Page) progress(w http.ResponseWriter, _ *http.Request, v *visitor) {
	j := p.Backlog.last()
	if j == nil {
		p.fail(w, v, http.StatusNotFound, "Nothing was done since this process started.")
		return
	}
	p.show(w, http.StatusOK, "job", frame{Title: "Progress", At: undeliveredPath, Visitor: v, Again: !j.Finished, Content: j})
}
