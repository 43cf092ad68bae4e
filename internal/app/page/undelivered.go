package page

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/app/kept"
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
	name, l, j := r.FormValue("queue"), p.Figures.look(r.Context()), p.Backlog.last()
	switch {
	case r.Method == http.MethodGet && j != nil && !j.Finished && j.Queue == name: // which sees what others do not
		p.show(w, http.StatusConflict, "job", frame{Title: "Progress", At: undeliveredPath, Visitor: v, Again: true, Content: j})
	case slices.ContainsFunc(l.piles(), func(one pile) bool { return one.Queue == name }):
		return name, true
	case !l.Known:
		p.fail(w, v, http.StatusServiceUnavailable, "The broker does not answer. %s", l.Why())
	default:
		p.fail(w, v, http.StatusNotFound, "The page shows no queue of that name.")
	}
	return "", false
}

type listing struct {
	Queue    string
	Find     string  // a text that messages must have; "": all are meant
	Missed   bool    // somebody acted, and had selected none
	Messages []*item // the oldest of those
	Total    int     // in the queue
	Sought   int     // those that were looked at
	Matching int     // of those that were looked at
}

// All is how many messages an action concerns that is for all.
func (l listing) All() int {
	if l.Find != "" {
		return l.Matching
	}
	return l.Total
}

// Sure reports whether all of the queue was looked at, where that matters.
func (l listing) Sure() bool { return l.Find == "" || l.Sought >= l.Total }

// seek visits the messages that have a text, among the first mostSought, and returns how many
// messages were looked at, and how many there are.
func (p *Page) seek(ctx context.Context, queue, find string, visit func(m *item) error) (sought, total int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	total, err = p.Backlog.walk(ctx, queue, false, func(m *item) error {
		sought++
		if m.has(find) {
			if err := visit(m); err != nil {
				return err
			}
		}
		if sought == mostSought {
			return errEnough
		}
		return nil
	})
	return sought, total, err
}

func (p *Page) list(w http.ResponseWriter, r *http.Request, v *visitor) {
	queue, ok := p.queue(w, r, v)
	if !ok {
		return
	}
	l := listing{Queue: queue, Find: strings.TrimSpace(r.Form.Get("find")), Missed: r.Form.Has("missed")}
	var err error
	l.Sought, l.Total, err = p.seek(r.Context(), queue, l.Find, func(m *item) error {
		if l.Matching++; l.Matching <= mostShown {
			l.Messages = append(l.Messages, m)
		}
		if l.Matching == mostShown && l.Find == "" {
			return errEnough
		}
		return nil
	})
	if err != nil {
		p.unread(w, v, queue, err)
		return
	}
	p.show(w, http.StatusOK, "queue", frame{Title: queue, At: undeliveredPath, Visitor: v, Selects: v.Act, Content: l})
}

func (p *Page) unread(w http.ResponseWriter, v *visitor, queue string, err error) {
	p.fail(w, v, http.StatusServiceUnavailable, "The queue %q cannot be read: %v.", queue, err)
}

type one struct {
	*item
	Whole          kept.Whole
	In, Text, Form string
	Cut            bool
}

// mostText is how much of a body is shown.
const mostText = 64 << 10

func (p *Page) message(w http.ResponseWriter, r *http.Request, v *visitor) {
	queue, ok := p.queue(w, r, v)
	if !ok {
		return
	}
	found, id, file := one{In: queue}, r.FormValue("id"), r.FormValue("as") == "file"
	_, _, err := p.seek(r.Context(), queue, "", func(m *item) error {
		if m.Mark != id {
			return nil
		}
		found.item, found.Whole = m, m.whole()
		if !file && len(found.Whole.Body) > mostText { // the whole may have 100 MiB
			found.Whole.Body = bytes.Clone(found.Whole.Body[:mostText+1])
		}
		return errEnough
	})
	switch {
	case err != nil:
		p.unread(w, v, queue, err)
	case found.item == nil:
		p.fail(w, v, http.StatusNotFound, "That message is not in the queue any more.")
	case file:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="message-`+id+`"`)
		_, _ = w.Write(found.Whole.Body)
	default:
		found.Text, found.Form, found.Cut = readable(found.Whole.Body)
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
		for range utf8.UTFMax - 1 { // a character may be cut
			if !utf8.Valid(body) {
				body = body[:len(body)-1]
			}
		}
	}
	if utf8.Valid(body) {
		return string(body), "text", cut
	}
	return hex.Dump(body), "bytes", cut
}

const nothingDone = "Nothing was done."

// act asks for a confirmation, and begins once that is given. The question says how many messages
// have the text Find.
func (p *Page) act(w http.ResponseWriter, r *http.Request, v *visitor) {
	queue, ok := p.queue(w, r, v)
	if !ok {
		return
	}
	a, sure := order{Action: r.PostForm.Get("action"), Queue: queue}, r.PostForm.Get("sure") == "yes"
	var err error
	if r.PostForm.Get("which") == "all" {
		a.Find = r.PostForm.Get("find")
		a.Count, _ = strconv.Atoi(r.PostForm.Get("count"))
	} else {
		a.IDs = slices.Compact(slices.Sorted(slices.Values(r.PostForm["id"])))
		a.Count = len(a.IDs)
	}
	if !sure && a.Find != "" {
		a.Count = 0
		a.Sought, _, err = p.seek(r.Context(), queue, a.Find, func(*item) error { a.Count++; return nil })
	}
	switch {
	case err != nil:
		p.unread(w, v, queue, err)
	case a.Action != "retry" && a.Action != "delete" || a.Count < 0:
		p.fail(w, v, http.StatusBadRequest, "This cannot be understood. "+nothingDone)
	case a.Count == 0 && a.Find != "":
		p.fail(w, v, http.StatusConflict, "No message matches any more. "+nothingDone)
	case a.Count == 0:
		list := url.Values{"queue": {queue}, "find": {r.PostForm.Get("find")}, "missed": {""}}
		http.Redirect(w, r, "/page/queue?"+list.Encode(), http.StatusSeeOther)
	case !sure:
		p.show(w, http.StatusOK, "confirm", frame{Title: "Are you sure?", At: undeliveredPath, Visitor: v, Content: a})
	case !p.Backlog.start(v.Name, a, p.Log):
		p.fail(w, v, http.StatusConflict, "Something is under way already. "+nothingDone+" Wait for it, and try again.")
	default:
		http.Redirect(w, r, "/page/job", http.StatusSeeOther)
	}
}

func (p *Page) progress(w http.ResponseWriter, _ *http.Request, v *visitor) {
	j := p.Backlog.last()
	if j == nil {
		p.fail(w, v, http.StatusNotFound, "Nothing was done since this process started.")
		return
	}
	p.show(w, http.StatusOK, "job", frame{Title: "Progress", At: undeliveredPath, Visitor: v, Again: !j.Finished, Content: j})
}
