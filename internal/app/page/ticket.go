package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/cli"
)

const ticketWithin = 10 * time.Second // for the broker's confirm

// Tickets read tickets, and cancel and postpone by them. Nil is that of a backend that has none.
type Tickets struct {
	by     delayer.Delayer
	read   func(delayer.Ticket) (id string, due time.Time, err error)
	before time.Duration
}

// NewTickets are those of the messages of a Delayer, or nil if it has none. The caller closes the
// Delayer.
func NewTickets(by delayer.Delayer) *Tickets {
	reader, is := by.(interface { // slots.Delayer
		ReadTicket(delayer.Ticket) (id string, due time.Time, err error)
	})
	if !is {
		return nil
	}
	return &Tickets{by: by, before: by.Limits().CancelBefore, read: reader.ReadTicket}
}

// scheduled is what is known by a ticket.
type scheduled struct {
	ID     string
	Due    time.Time // by the broker's clock
	Text   string
	Until  time.Time // when it is too late to change it
	InTime bool
	Before string // the time between Until and Due
}

// scheduled reads a ticket, or says what is wrong with it.
func (p *Page) scheduled(text string) (s scheduled, wrong string) {
	id, due, err := p.Tickets.read(delayer.Ticket(text))
	if err != nil {
		return s, notOurs(err)
	}
	s = scheduled{ID: id, Due: due, Text: text, Before: cli.Short(p.Tickets.before), Until: due.Add(-p.Tickets.before)}
	s.InTime = p.now().Before(s.Until)
	return s, ""
}

// ticket says what is known by a ticket.
func (p *Page) ticket(w http.ResponseWriter, r *http.Request, v *visitor) {
	if p.Tickets == nil {
		p.fail(w, v, http.StatusNotImplemented, "%s", noTickets)
		return
	}
	s, wrong := p.scheduled(strings.TrimSpace(r.FormValue("ticket")))
	if wrong != "" {
		p.fail(w, v, http.StatusNotFound, "%s A message that waits cannot be found by its id: RabbitMQ does not look into queues. "+
			"One that was not delivered can, in its list.", wrong)
		return
	}
	p.show(w, http.StatusOK, "ticket", frame{Title: "A ticket", At: waitingPath, Visitor: v, Content: s})
}

const noTickets = "Messages of this backend have no tickets, and cannot be cancelled or postponed: those of backend controller with slots can. " +
	"Here the consumer decides, when the message arrives."

// notOurs says why a ticket cannot be used.
func notOurs(err error) string {
	var e *delayer.Error
	if !errors.As(err, &e) || e.Cause == nil {
		return sentence(err.Error())
	}
	return strings.TrimSpace(sentence(e.Cause.Error()) + " " + sentence(e.Hint))
}

// sentence is a text with a capital letter and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// A change is what somebody wants done with a message.
type change struct {
	scheduled
	Later bool   // it is to be postponed
	By    string // how much later, as it was typed
	To    time.Time

	Title, Failed string // how it went
	New           delayer.Ticket
}

// changeTicket asks whether somebody is sure, and cancels or postpones then.
func (p *Page) changeTicket(w http.ResponseWriter, r *http.Request, v *visitor) {
	if p.Tickets == nil {
		p.fail(w, v, http.StatusNotImplemented, "Nothing was done. %s", noTickets)
		return
	}
	c, wrong := p.changeOf(r)
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
func (p *Page) changeOf(r *http.Request) (c change, wrong string) {
	if c.scheduled, wrong = p.scheduled(r.PostForm.Get("ticket")); wrong != "" {
		return c, wrong
	}
	switch r.PostForm.Get("action") {
	case "cancel":
		return c, ""
	case "postpone":
		c.Later, c.By = true, strings.TrimSpace(r.PostForm.Get("by"))
	default:
		return c, "This cannot be understood."
	}
	var by cli.Delay
	if err := by.UnmarshalText([]byte(c.By)); err != nil {
		return c, fmt.Sprintf("Later by %q: %v.", c.By, err)
	}
	if by <= 0 {
		return c, "That is not later than it is due: a message can only be postponed. To make it earlier, cancel it and publish it anew."
	}
	c.To = c.Due.Add(time.Duration(by))
	return c, ""
}

// do cancels or postpones, says how that went, and leaves a line in the log. It returns the status
// of the answer.
func (p *Page) do(ctx context.Context, c *change, who string) (status int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ticketWithin) // a browser that goes away ends nothing
	defer cancel()
	action := "cancel"
	var err error
	if c.Later {
		action = "postpone"
		c.New, err = p.Tickets.by.Postpone(ctx, delayer.Ticket(c.Text), max(0, c.To.Sub(p.now())))
	} else {
		err = p.Tickets.by.Cancel(ctx, delayer.Ticket(c.Text))
	}
	done, text := 1, ""
	if err != nil {
		done, text = 0, strings.TrimPrefix(err.Error(), "delayer: ")
	}
	p.Log.Info("an action of the page has ended", "who", who, "action", action, "message", c.ID, "asked", 1, "done", done, "error", text)
	status = http.StatusOK
	switch {
	case err != nil:
		status = c.fail(err, text)
	case c.Later:
		c.Title = "1 message postponed"
		if _, due, err := p.Tickets.read(c.New); err == nil { // as the broker's clock has it
			c.Due = due
		}
	default:
		c.Title = "1 message cancelled"
	}
	return status
}

// fail says what has become of a change.
func (c *change) fail(err error, text string) (status int) {
	c.Title = "Not cancelled"
	if c.Later {
		c.Title = "Not postponed"
	}
	switch {
	case errors.Is(err, delayer.ErrTooLate):
		c.Failed = fmt.Sprintf("It is too late, and nothing was done: a message can be changed until %s before the time of its ticket.", c.Before)
		return http.StatusConflict
	case errors.Is(err, delayer.ErrUnknown):
		c.Title = strings.Replace(c.Title, "Not", "Perhaps", 1)
		c.Failed = "The broker did not confirm it in time, so it is not known whether it counts. Do it again: that does no harm."
		return http.StatusGatewayTimeout
	case delayer.SafeToRetry(err):
		c.Failed = "Nothing was done: " + text
	default:
		c.Failed = "The broker has not taken it: " + text
	}
	return http.StatusServiceUnavailable
}
