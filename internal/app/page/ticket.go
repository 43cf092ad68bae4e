package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/app/cli"
)

const (
	ticketWithin = 10 * time.Second // for the broker's confirm
	mostAsked    = 400              // letters: of a ticket there are at most 120, of a message id 255
	utcLayout    = "2006-01-02T15:04:05"
)

// Tickets read tickets, and cancel and postpone by them. Nil is that of a backend that has none.
type Tickets struct {
	by     delayer.Delayer
	read   func(delayer.Ticket) (controller.Scheduled, error)
	before time.Duration
}

// NewTickets are those of the messages of a Delayer that was opened with a configuration, or nil if
// it has none. The caller closes the Delayer.
func NewTickets(cfg backend.Config, by delayer.Delayer) *Tickets {
	before := by.Limits().CancelBefore
	if before == 0 {
		return nil
	}
	wheel := cfg.Controller
	wheel.Options = cfg.Options
	return &Tickets{by: by, before: before, read: func(t delayer.Ticket) (controller.Scheduled, error) {
		return controller.ReadTicket(wheel, t)
	}}
}

// limit is how long before it is due a message can be changed. 0: there are no tickets.
func (t *Tickets) limit() time.Duration {
	if t == nil {
		return 0
	}
	return t.before
}

// scheduled is what is known by a ticket.
type scheduled struct {
	controller.Scheduled
	Text, Prefix string
	Until        time.Time // when it is too late to change it
	InTime       bool
	Before       string // the time between Until and Due
	Least        string // the earliest time that it can be postponed to
}

func (p *Page) scheduled(text, prefix string) (s scheduled, err error) {
	s.Text, s.Prefix, s.Before = text, prefix, cli.Short(p.Tickets.before)
	if s.Scheduled, err = p.Tickets.read(delayer.Ticket(text)); err != nil {
		return s, err
	}
	s.Until = s.Due.Add(-p.Tickets.before)
	s.InTime = p.now().Before(s.Until)
	s.Least = s.Due.UTC().Truncate(time.Second).Add(time.Second).Format(utcLayout)
	return s, nil
}

// An answer is what is said of a text that was typed in.
type answer struct {
	scheduled
	Known bool // it is a ticket of here
	Title string
	Says  []string
	Found []foundMessage
}

// A foundMessage was not delivered, and has the id that was asked for.
type foundMessage struct {
	item
	Queue string
}

// ticket says what is known by a ticket or an id.
func (p *Page) ticket(w http.ResponseWriter, r *http.Request, v *visitor) {
	text := strings.TrimSpace(r.FormValue("ticket"))
	l := p.Figures.known(r.Context())
	a := answer{Title: "This is no ticket"}
	a.Text = text
	looksLike := strings.HasPrefix(text, "d1.") || strings.HasPrefix(text, "d2.")
	var err error
	switch {
	case text == "" || len(text) > mostAsked:
		p.fail(w, v, http.StatusBadRequest, "Write a ticket or a message id, of at most %d letters.", mostAsked)
		return
	case p.Tickets == nil && looksLike:
		a.Title, a.Says = "No ticket of here", []string{noTickets}
	case p.Tickets != nil:
		a.scheduled, err = p.scheduled(text, l.Prefix)
		if a.Known = err == nil; !a.Known && looksLike {
			a.Title, a.Says = "No ticket of here", notOurs(err)
		}
	}
	if !a.Known && !looksLike {
		p.findByID(r.Context(), l, &a)
	}
	p.show(w, http.StatusOK, "ticket", frame{Title: "A ticket", At: waitingPath, Visitor: v, Content: a})
}

const noTickets = "Messages of this backend have no tickets, and cannot be cancelled or postponed: those of backend controller with slots can. " +
	"Here the consumer decides, when the message arrives."

// notOurs says why a ticket cannot be used.
func notOurs(err error) []string {
	var e *delayer.Error
	if !errors.As(err, &e) || e.Cause == nil {
		return []string{err.Error()}
	}
	return []string{sentence(e.Cause.Error()), sentence(e.Hint)}
}

// sentence is a text with a capital letter and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// findByID looks for an id among what was not delivered, as far as that is no more than a list
// reads.
func (p *Page) findByID(ctx context.Context, l look, a *answer) {
	a.Title = "Not a ticket: a message id?"
	a.Says = append(a.Says, "A message that waits cannot be found by its id: RabbitMQ does not look into queues.")
	if p.Tickets != nil {
		a.Says = append(a.Says, "With the ticket that its publisher was given it can be cancelled and postponed here.")
	} else {
		a.Says = append(a.Says, noTickets)
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	read, left := 0, []string{}
	for _, pile := range l.piles() {
		if pile.Messages == 0 {
			continue
		}
		if read+pile.Messages > mostSought {
			left = append(left, fmt.Sprintf("%s (it has %s)", cli.Shown(pile.Queue), messages(pile.Messages)))
			continue
		}
		_, err := p.Backlog.walk(ctx, pile.Queue, false, func(m *item) error {
			read++
			if m.Message == a.Text || m.Own == a.Text {
				a.Found = append(a.Found, foundMessage{*m, pile.Queue})
			}
			return nil
		})
		if err != nil {
			left = append(left, fmt.Sprintf("%s (%v)", cli.Shown(pile.Queue), err))
		}
	}
	switch {
	case len(a.Found) > 0:
		a.Says = append(a.Says, "It is among the messages that were not delivered:")
	case read > 0:
		a.Says = append(a.Says, fmt.Sprintf("It is not among the %s that were not delivered and looked through.", messages(read)))
	case len(left) == 0:
		a.Says = append(a.Says, "As far as is known, no message is left undelivered.")
	}
	if len(left) > 0 {
		a.Says = append(a.Says, "Not looked through: "+strings.Join(left, ", ")+".")
	}
}

// A change is what somebody wants done with a message.
type change struct {
	scheduled
	Later bool // it is to be postponed
	To    time.Time
	At    string // To, as the form has it

	Title, Failed string // how it went
	New           delayer.Ticket
}

// action names a change.
func (c change) action() string {
	if c.Later {
		return "postpone"
	}
	return "cancel"
}

// changeTicket asks whether somebody is sure, and cancels or postpones then.
func (p *Page) changeTicket(w http.ResponseWriter, r *http.Request, v *visitor) {
	if p.Tickets == nil {
		p.fail(w, v, http.StatusNotImplemented, "Nothing was done. %s", noTickets)
		return
	}
	c, wrong := p.changeOf(r, p.Figures.known(r.Context()).Prefix)
	switch {
	case wrong != "":
		p.fail(w, v, http.StatusBadRequest, "Nothing was done. %s", wrong)
	case r.PostForm.Get("sure") != "yes":
		p.show(w, http.StatusOK, "ticketsure", frame{Title: "Are you sure?", At: waitingPath, Visitor: v, Content: c})
	default:
		status := p.do(r.Context(), &c, v.Name)
		p.show(w, status, "ticketdone", frame{Title: c.Title, At: waitingPath, Visitor: v, Content: c})
	}
}

// changeOf reads a form, and says what is wrong with it.
func (p *Page) changeOf(r *http.Request, prefix string) (c change, wrong string) {
	var err error
	if c.scheduled, err = p.scheduled(r.PostForm.Get("ticket"), prefix); err != nil {
		return c, strings.Join(notOurs(err), " ")
	}
	switch r.PostForm.Get("action") {
	case "cancel":
		return c, ""
	case "postpone":
		c.Later = true
		c.To, wrong = later(c.Due, r.PostForm.Get("by"), r.PostForm.Get("at"))
		c.At = c.To.UTC().Format(time.RFC3339Nano)
		return c, wrong
	}
	return c, "This cannot be understood."
}

// later is the time that a message is postponed to, by so much after due or at a time in UTC, or
// what is wrong with that.
func later(due time.Time, by, at string) (to time.Time, wrong string) {
	by, at = strings.TrimSpace(by), strings.TrimSpace(at)
	switch {
	case (by == "") == (at == ""):
		return to, "Write by how much later, or a time: one of them."
	case by != "":
		var d cli.Delay
		if err := d.UnmarshalText([]byte(by)); err != nil {
			return to, fmt.Sprintf("Later by %q: %v.", by, err)
		}
		to = due.Add(time.Duration(d))
	default:
		var err error
		for _, layout := range []string{time.RFC3339, utcLayout, "2006-01-02T15:04"} {
			if to, err = time.Parse(layout, at); err == nil {
				break
			}
		}
		if err != nil {
			return to, fmt.Sprintf("%q is no time such as 2027-01-31T18:00.", at)
		}
	}
	if !to.After(due) {
		return to, "That is not later than it is due: a message can only be postponed. To make it earlier, cancel it and publish it anew."
	}
	return to.UTC(), ""
}

// do cancels or postpones, says how that went, and leaves a line in the log. It returns the status
// of the answer.
func (p *Page) do(ctx context.Context, c *change, who string) (status int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ticketWithin) // a browser that goes away ends nothing
	defer cancel()
	var err error
	if c.Later {
		c.New, err = p.Tickets.by.Postpone(ctx, delayer.Ticket(c.Text), max(0, c.To.Sub(p.now())))
	} else {
		err = p.Tickets.by.Cancel(ctx, delayer.Ticket(c.Text))
	}
	done, text := 1, ""
	if status = http.StatusOK; err != nil {
		done, text = 0, strings.TrimPrefix(err.Error(), "delayer: ")
	}
	p.Log.Info("an action of the page has ended", "who", who, "action", c.action(), "message", c.ID, "asked", 1, "done", done, "error", text)
	switch {
	case err != nil:
		c.Title, c.Failed, status = c.failed(err)
	case c.Later:
		c.Title = "1 message postponed"
		if next, err := p.Tickets.read(c.New); err == nil { // as the broker's clock has it
			c.Due = next.Due
		}
	default:
		c.Title = "1 message cancelled"
	}
	return status
}

// failed says what has become of a change.
func (c change) failed(err error) (title, why string, status int) {
	title = map[bool]string{true: "Not postponed", false: "Not cancelled"}[c.Later]
	var e *delayer.Error
	_ = errors.As(err, &e)
	switch {
	case errors.Is(err, delayer.ErrTooLate):
		return title, fmt.Sprintf("It is too late, and nothing was done: a message can be changed until %s before the time of its ticket.", c.Before), http.StatusConflict
	case errors.Is(err, delayer.ErrUnknown):
		return map[bool]string{true: "Perhaps postponed", false: "Perhaps cancelled"}[c.Later],
			"The broker did not confirm it in time, so it is not known whether it counts. Do it again: that does no harm.", http.StatusGatewayTimeout
	case errors.Is(err, delayer.ErrNotSent), errors.Is(err, delayer.ErrUnavailable), errors.Is(err, delayer.ErrClosed):
		return title, "Nothing was done: the broker cannot be reached, or does not tell its time yet. Try again in some seconds.", http.StatusServiceUnavailable
	case errors.Is(err, delayer.ErrOutOfRange) && e != nil && e.Cause != nil:
		return title, "Nothing was done: " + e.Cause.Error() + ".", http.StatusBadRequest
	}
	return title, "The broker has not taken it: " + strings.TrimPrefix(err.Error(), "delayer: "), http.StatusServiceUnavailable
}
