package page

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
)

// A wheel does what a test asks for.
type wheel struct {
	delayer.Delayer
	err       error
	cancelled []delayer.Ticket
	postponed time.Duration
}

func (w *wheel) Cancel(_ context.Context, t delayer.Ticket) error {
	w.cancelled = append(w.cancelled, t)
	return w.err
}

func (w *wheel) Postpone(_ context.Context, _ delayer.Ticket, d time.Duration) (delayer.Ticket, error) {
	w.postponed = d
	return "d2.next", w.err
}

// withTickets is a page whose messages have two tickets: d2.one, due in an hour, and d2.next, in
// three.
func withTickets(t *testing.T) (*site, *wheel) {
	w, by := newSite(t, undeliveredSample(), twoTokens()), &wheel{}
	w.Tickets = &Tickets{by: by, before: 5 * time.Second, read: func(t delayer.Ticket) (string, time.Time, error) {
		switch t {
		case "d2.one":
			return "ID1", asked.Add(time.Hour), nil
		case "d2.next":
			return "ID1", asked.Add(3 * time.Hour), nil
		}
		return "", time.Time{}, &delayer.Error{Op: "read", Kind: delayer.ErrTicket, Cause: errors.New("it is of another vhost"), Hint: "use the right one"}
	}}
	w.login("a")
	return w, by
}

// change sends a form of the page of a ticket.
func (w *site) change(form url.Values) *httptest.ResponseRecorder {
	w.Helper()
	return w.ask(http.MethodPost, "/page/ticket", form, "Sec-Fetch-Site", "same-origin")
}

func TestTicket(t *testing.T) {
	w, by := withTickets(t)
	text := w.body("/page/ticket?ticket=+d2.one+")
	for _, want := range []string{"Nov 23 15:00:30 UTC</time>, in 1h 0m", "ID1", "until <time", "15:00:25", "Cancel…", "Postpone…"} {
		assert.Contains(t, text, want)
	}
	form := url.Values{"ticket": {"d2.one"}, "action": {"cancel"}}
	assert.Contains(t, w.change(form).Body.String(), "Cancel 1 message?")
	assert.Empty(t, by.cancelled, "it asks first")
	form.Set("sure", "yes")
	assert.Contains(t, w.change(form).Body.String(), "1 message cancelled")
	assert.Equal(t, []delayer.Ticket{"d2.one"}, by.cancelled)
	assert.Contains(t, w.log.String(), "who=alice action=cancel message=ID1 asked=1 done=1 error=\"\"")

	answer := w.change(url.Values{"ticket": {"d2.one"}, "action": {"postpone"}, "by": {"2h"}}).Body.String()
	assert.Contains(t, answer, "Postpone 1 message?")
	assert.Contains(t, answer, `name="by" value="2h"`)
	answer = w.change(url.Values{"ticket": {"d2.one"}, "action": {"postpone"}, "by": {"2h"}, "sure": {"yes"}}).Body.String()
	assert.Contains(t, answer, "1 message postponed")
	assert.Contains(t, answer, "d2.next")
	assert.Contains(t, plain(answer), "Nov 23 17:00:30 UTC, in 3h 0m")
	assert.Equal(t, 3*time.Hour, by.postponed)
	assert.Contains(t, w.log.String(), "who=alice action=postpone message=ID1 asked=1 done=1")

	w.login("b")
	text = w.body("/page/ticket?ticket=d2.one")
	assert.NotContains(t, text, "Cancel…")
	assert.Contains(t, text, "the right <code>act</code>")
	assert.Equal(t, http.StatusForbidden, w.change(form).Code, "bob may only look")
	w.login("a")
	assert.Equal(t, http.StatusForbidden, w.ask(http.MethodPost, "/page/ticket", form, "Sec-Fetch-Site", "cross-site").Code)
	assert.Len(t, by.cancelled, 1)

	w.at = w.at.Add(time.Hour - time.Second)
	text = w.body("/page/ticket?ticket=d2.one")
	assert.Contains(t, text, "not any more: only until 5s before it is due")
	assert.NotContains(t, text, "Cancel…")
}

// TestTicket_Fails: whatever goes wrong is said in words.
func TestTicket_Fails(t *testing.T) {
	w, by := withTickets(t)
	for err, want := range map[error]string{
		delayer.ErrTooLate: "It is too late, and nothing was done", delayer.ErrUnknown: "Do it again: that does no harm", &delayer.Error{Kind: delayer.ErrNotSent, Cause: errors.New("away")}: "Nothing was done: ",
		&delayer.Error{Kind: delayer.ErrOutOfRange, Cause: errors.New("before it")}: ": before it", delayer.ErrConflict: "The broker has not taken it",
	} {
		by.err = err
		answer := w.change(url.Values{"ticket": {"d2.one"}, "action": {"cancel"}, "sure": {"yes"}})
		assert.GreaterOrEqual(t, answer.Code, http.StatusBadRequest, err)
		assert.Contains(t, answer.Body.String(), want)
	}
	assert.Contains(t, w.log.String(), "asked=1 done=0 error=")
	for want, form := range map[string]url.Values{
		"It is of another vhost.":   {"ticket": {"d2.other"}, "action": {"cancel"}},
		"This cannot be understood": {"ticket": {"d2.one"}, "action": {"other"}},
		"That is not later":         {"ticket": {"d2.one"}, "action": {"postpone"}, "by": {"-1h"}},
		"a time with its unit":      {"ticket": {"d2.one"}, "action": {"postpone"}, "by": {"5"}},
	} {
		answer := w.change(form)
		assert.Equal(t, http.StatusBadRequest, answer.Code)
		assert.Contains(t, answer.Body.String(), want)
	}
	for _, text := range []string{"d2.other", "", url.QueryEscape(evil), strings.Repeat("x", 401)} {
		answer := w.ask(http.MethodGet, "/page/ticket?ticket="+text, nil)
		assert.Equal(t, http.StatusNotFound, answer.Code)
		assert.Contains(t, answer.Body.String(), "cannot be found by its id")
	}
	w.Tickets = nil
	assert.Contains(t, w.body("/page/waiting"), "Messages of this backend have no tickets")
	assert.Equal(t, http.StatusNotImplemented, w.ask(http.MethodGet, "/page/ticket?ticket=d2.one", nil).Code)
	assert.Equal(t, http.StatusNotImplemented, w.change(url.Values{"ticket": {"d2.one"}, "action": {"cancel"}, "sure": {"yes"}}).Code)
}
