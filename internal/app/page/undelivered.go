package page

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
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
	p.show(w, http.StatusOK, "undelivered", frame{Title: "Not delivered", At: undeliveredPath, Visitor: v, Live: true, Content: struct {
		look
		Piles []pile
		Job   *job
	}{l, l.piles(), p.Backlog.last()}})
}

// queue is that of a request, if the page shows it.
func (p *Page) queue(w http.ResponseWriter, r *http.Request, v *visitor) (string, bool) {
	name := r.FormValue("queue")
	if !slices.ContainsFunc(p.Figures.look(r.Context()).piles(), func(one pile) bool { return one.Queue == name }) {
		p.fail(w, v, http.StatusNotFound, "The page shows no queue of that name.")
		return "", false
	}
	return name, true
}

// listed is a message in the list.
type listed struct {
	item
	Why, Bytes string
}

// listing is what a queue holds.
type listing struct {
	Queue    string
	Messages []listed
	Total    int
}

func (p *Page) list(w http.ResponseWriter, r *http.Request, v *visitor) {
	queue, ok := p.queue(w, r, v)
	if !ok {
		return
	}
	l := listing{Queue: queue}
	ctx, cancel := context.WithTimeout(r.Context(), lookFor)
	defer cancel()
	err := p.Backlog.walk(ctx, queue, false, func(m *item) error {
		if l.Total++; l.Total > mostShown {
			return nil
		}
		why, err := m.why(ctx)
		l.Messages = append(l.Messages, listed{*m, why, cli.Size(m.Size)})
		return err
	})
	if err != nil {
		p.fail(w, v, http.StatusServiceUnavailable, "The queue %q cannot be read: %v.", queue, err)
		return
	}
	p.show(w, http.StatusOK, "queue", frame{Title: queue, At: undeliveredPath, Visitor: v, Content: l})
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
	found, id := one{Queue: queue}, r.FormValue("id")
	ctx, cancel := context.WithTimeout(r.Context(), lookFor)
	defer cancel()
	err := p.Backlog.walk(ctx, queue, false, func(m *item) error {
		if m.ID != id {
			return nil
		}
		why, err := m.why(ctx)
		found.listed, found.whole = listed{*m, why, cli.Size(m.Size)}, m.whole()
		return err
	})
	switch {
	case err != nil:
		p.fail(w, v, http.StatusServiceUnavailable, "The queue %q cannot be read: %v.", queue, err)
	case found.ID == "":
		p.fail(w, v, http.StatusNotFound, "That message is not in the queue any more.")
	case r.FormValue("as") == "file":
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="message-`+found.ID+`"`)
		_, _ = w.Write(found.Body)
	default:
		found.Text, found.Form, found.Cut = readable(found.Body)
		p.show(w, http.StatusOK, "message", frame{Title: "A message", At: undeliveredPath, Visitor: v, Content: found})
	}
}

// readable is a body as text: JSON laid out, other text as it is, and what is none in hexadecimal digits.
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
	IDs           []string // nil: all
	Count         int
}

// Sending tells retry from delete.
func (a order) Sending() bool { return a.Action == "retry" }

// act asks whether somebody is sure, and begins then.
func (p *Page) act(w http.ResponseWriter, r *http.Request, v *visitor) {
	queue, ok := p.queue(w, r, v)
	if !ok {
		return
	}
	a := order{Action: r.PostForm.Get("action"), Queue: queue, IDs: r.PostForm["id"]}
	count, err := strconv.Atoi(r.PostForm.Get("count"))
	all := r.PostForm.Get("which") == "all"
	if a.Count = len(a.IDs); all {
		a.IDs, a.Count = nil, count
	}
	switch {
	case a.Action != "retry" && a.Action != "delete", all && (err != nil || count < 1 || count > mostRead):
		p.fail(w, v, http.StatusBadRequest, "This cannot be understood. Nothing was done.")
		return
	case a.Count == 0:
		p.fail(w, v, http.StatusBadRequest, "No message is selected. Nothing was done.")
		return
	case r.PostForm.Get("sure") != "yes":
		p.show(w, http.StatusOK, "confirm", frame{Title: "Are you sure?", At: undeliveredPath, Visitor: v, Content: a})
		return
	}
	var ids map[string]bool
	if !all {
		ids = map[string]bool{}
		for _, id := range a.IDs {
			ids[id] = true
		}
		a.Count = len(ids)
	}
	if !p.Backlog.start(job{Who: v.Name, Queue: queue, Action: a.Action, Asked: a.Count}, ids, p.ended) {
		p.fail(w, v, http.StatusConflict, "Something is under way already. Nothing was done: wait for it, and try again.")
		return
	}
	http.Redirect(w, r, "/page/job", http.StatusSeeOther)
}

// ended leaves a line in the log.
func (p *Page) ended(j job) {
	stay := 0
	for _, n := range j.Stay {
		stay += n
	}
	p.Log.Info("an action of the page has ended", "who", j.Who, "action", j.Action, "queue", j.Queue,
		"asked", j.Asked, "done", j.Done, "stay", stay, "gone", j.Gone, "error", j.Err)
}

func (p *Page) progress(w http.ResponseWriter, _ *http.Request, v *visitor) {
	j := p.Backlog.last()
	if j == nil {
		p.fail(w, v, http.StatusNotFound, "Nothing was done since this process started.")
		return
	}
	p.show(w, http.StatusOK, "job", frame{Title: "Progress", At: undeliveredPath, Visitor: v, Again: !j.Finished, Content: j})
}
