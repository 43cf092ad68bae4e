package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/remarks"
	"github.com/delayer-go/delayer/status"
)

// slotOf is a queue of messages due from a time after asked on.
func slotOf(name string, from, width time.Duration, n int) status.Queue {
	begin, end := asked.Add(from), asked.Add(from+width)
	return status.Queue{Name: name, Messages: n, From: &begin, To: &end}
}

// slots is a status of a wheel of slots, with what is in front of a controller.
func slots() status.Status {
	return status.Status{Time: asked, Prefix: "p", Waiting: ptr(1021), Unroutable: &status.Queue{Name: "p.unroutable"}, Backends: []status.Backend{{
		Name: "controller", Configured: true, Waiting: ptr(1021), Controllers: ptr(1), Held: ptr(8),
		Queues: []status.Queue{
			{Name: "p.intake", Intake: true, Messages: 1}, slotOf("p.20m.1", 20*time.Minute, 20*time.Minute, 1000),
			slotOf("p.4s.2", 4*time.Second, 4*time.Second, 17), slotOf("p.4s.3", 8*time.Second, 4*time.Second, 0), slotOf("p.1m.4", -5*time.Minute, time.Minute, 3),
		},
		Due: []status.Due{{From: asked.Add(4 * time.Second), To: asked.Add(8 * time.Second), Messages: 17}},
	}}}
}

func TestWaiting(t *testing.T) {
	w := newSite(t, slots(), "")
	text := w.body("/page/waiting")
	for _, want := range []string{
		"1,021 messages in 4 of 5 queues", "14:20 to 14:40 in 20m 0s", "p.20m.1", "1,000", "14:00:34 in 4s",
		"overdue, for 5m 0s", "in 4s", "with controllers", "Messages of this backend have no tickets", "Waiting",
	} {
		assert.Contains(t, plain(text), want)
	}
	assert.NotContains(t, text, "p.4s.3", "it is empty")

	var order []string
	for _, r := range waitingOf(look{figures{Status: slots()}, reply{Known: true}}).Parts[0].Rows {
		order = append(order, plain(string(r.What)))
	}
	assert.Equal(t, []string{"at once", "13:55", "14:00:34", "14:20 to 14:40"}, order)
}

var tag = regexp.MustCompile(`<[^>]*>`)

// plain is HTML as one reads it.
func plain(text string) string {
	return strings.Join(strings.Fields(tag.ReplaceAllString(text, "")), " ")
}

func TestNextFact(t *testing.T) {
	ladder := func(n int) status.Status {
		return status.Status{Time: asked, Backends: []status.Backend{{Waiting: &n, Queues: []status.Queue{{Wait: 4000, Messages: n}, {Wait: 1000}, {Wait: 2000, Messages: n}}}}}
	}
	overdue := slots()
	overdue.Backends[0].Due[0].From = asked.Add(-time.Second)
	unknown := status.Status{Backends: []status.Backend{{Name: "plugin"}}}
	for want, s := range map[string]status.Status{
		"≤ 2s, then one leaves its queue, and may wait in another": ladder(3), "–, nothing waits": ladder(0),
		"–, the queues do not tell": unknown, "in 4s, at 14:00:34 UTC, or soon after": slots(), "now, until 14:00:38 UTC": overdue,
	} {
		got := nextFact(s)
		assert.Equal(t, want, plain(fmt.Sprint(got.Value, ", ", got.Note)))
	}
}

// TestOverview_Fine: what the page says is fine is so.
func TestOverview_Fine(t *testing.T) {
	s := slots()
	s.Backends[0].Queues = nil
	w := newSite(t, s, "")
	assert.NotContains(t, w.body("/"), "✓", "messages to orders could not be passed on")
	assert.Contains(t, w.body("/"), "8 messages published to")

	o := w.overviewOf(look{figures{Status: s}, reply{Known: true}})
	assert.Empty(t, o.Wrong)
	assert.Equal(t, "Nothing: no queue is missing, a controller is at work and no message is unroutable.", o.Fine)
	s.Parked, s.Policies, s.Backends[0].Controllers = []status.Queue{}, []string{}, nil
	assert.Equal(t, "Nothing: no queue is missing and no message is left undelivered.", fine(s))
	s.Parked = []status.Queue{{Name: "mail.parked", Messages: 1}}
	assert.Equal(t, []remarks.Remark{{Text: "parked messages: see which and why with delayer messages list mail.parked", Wrong: true, Undelivered: true}},
		w.overviewOf(look{figures{Status: s}, reply{Known: true}}).Wrong)
	s.Parked = nil
	for _, f := range facts(s, nil) {
		assert.Equal(t, f.Name == "waiting", f.Link != "", f.Name)
	}
}

// TestPage_LongLook: a look may take longer than the server grants others.
func TestPage_LongLook(t *testing.T) {
	w := newSite(t, undeliveredSample(), "")
	w.put("a", "", nil)
	server := httptest.NewUnstartedServer(w)
	server.Config.WriteTimeout = time.Nanosecond
	server.Start()
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+unroutable, nil)
	require.NoError(t, err)
	request.Host = "localhost"
	answer, err := server.Client().Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusOK, answer.StatusCode)
}

// TestQuestion: the broker is asked once in some seconds, and the less often the longer an answer
// takes.
func TestQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes, asked := time.Duration(0), 0
		q := &question[int]{now: time.Now, ask: func(context.Context) (int, error) {
			asked++
			time.Sleep(takes)
			return asked, nil
		}}
		for _, c := range []struct{ takes, every time.Duration }{
			{0, askEvery}, {200 * time.Millisecond, 20 * time.Second}, {5 * time.Second, mostEvery},
		} {
			time.Sleep(mostEvery)
			takes = c.takes
			before := q.look(t.Context()).Value
			time.Sleep(c.every - time.Millisecond)
			assert.Equal(t, before, q.look(t.Context()).Value)
			time.Sleep(time.Millisecond)
			assert.Equal(t, before+1, q.look(t.Context()).Value)
		}
	})
}
