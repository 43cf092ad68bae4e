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

// dueIn is what is due from a time after asked on.
func dueIn(from, width time.Duration, n int) status.Due {
	return status.Due{From: asked.Add(from), To: asked.Add(from + width), Messages: n}
}

// slots is a status of a wheel of slots, with a bundle that no controller has read.
func slots() status.Status {
	return status.Status{Time: asked, Prefix: "p", Waiting: ptr(1021), Unroutable: &status.Queue{Name: "p.unroutable"}, Backends: []status.Backend{{
		Name: "controller", Configured: true, Waiting: ptr(1021), Controllers: ptr(1), Unread: ptr(1),
		Queues: []status.Queue{{Name: "p.log", Intake: true, Messages: 1}, {Name: "p.slot", Messages: 5}},
		Due: []status.Due{
			{From: asked.Add(-5 * time.Minute), To: asked.Add(-4 * time.Minute), Messages: 3, Overdue: 3},
			dueIn(4*time.Second, time.Millisecond, 12), dueIn(8*time.Second, 4*time.Second, 5), dueIn(20*time.Minute, 20*time.Minute, 1000),
		},
	}}}
}

func TestWaiting(t *testing.T) {
	w := newSite(t, slots(), "")
	text := w.body("/page/waiting")
	for _, want := range []string{
		"about 1,021 messages. The controller that leads counts them", "14:20 to 14:41 in 20m 0s", "1,000", "14:00:34 to 14:00:42 in 4s", "17",
		"overdue, for 5m 0s", "messages, about", "not read by a controller yet", "Messages of this backend have no tickets", "Waiting",
	} {
		assert.Contains(t, plain(text), want)
	}
	assert.NotContains(t, text, "p.slot", "it has bundles")

	var order []string
	for _, r := range waitingOf(look{figures{Status: slots()}, reply{Known: true}}).Parts[0].Rows {
		order = append(order, plain(string(r.What)))
	}
	assert.Equal(t, []string{"in bundles", "13:55:30 to 13:56:30", "14:00:34 to 14:00:42", "14:20 to 14:41"}, order)
	unknown := slots()
	unknown.Waiting, unknown.Backends[0].Waiting, unknown.Backends[0].Due = nil, nil, nil
	assert.Contains(t, plain(newSite(t, unknown, "").body("/page/waiting")), "How many wait is not known: the overview says why.")
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
	next, overdue := slots(), slots()
	next.Backends[0].Due = next.Backends[0].Due[1:]
	unknown := status.Status{Backends: []status.Backend{{Name: "plugin"}}}
	for want, s := range map[string]status.Status{
		"≤ 2s, then one leaves its queue, and may wait in another": ladder(3), "–, nothing waits": ladder(0),
		"–, the queues do not tell": unknown, "in 4s, at 14:00:34 UTC": next, "now, until 13:56:30 UTC": overdue,
	} {
		got := nextFact(s)
		assert.Equal(t, want, plain(fmt.Sprint(got.Value, ", ", got.Note)))
	}
}

// TestOverview_Fine: what the page says is fine is so.
func TestOverview_Fine(t *testing.T) {
	s := slots()
	s.Backends[0].Queues, s.Backends[0].Due, s.Backends[0].Unread = nil, []status.Due{}, ptr(0)
	w := newSite(t, s, "")
	assert.NotContains(t, w.body("/"), "✓", "messages to orders could not be passed on")
	assert.Contains(t, w.body("/"), "8 messages published to")

	o := w.overviewOf(look{figures{Status: s}, reply{Known: true}})
	assert.Empty(t, o.Wrong)
	w.Figures.set(look{figures{Status: s}, reply{Known: true}})
	assert.Contains(t, w.body("/"), "Nothing: no queue is missing, a controller is at work and no message is unroutable.")
	s.Parked, s.Policies, s.Backends[0].Controllers = []status.Queue{}, []string{}, nil
	w.Figures.set(look{figures{Status: s}, reply{Known: true}})
	assert.Contains(t, w.body("/"), "Nothing: no queue is missing, no policy does harm and no message is left undelivered.")
	assert.NotContains(t, w.body("/"), `class="notes"`, "good news needs no attention")
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
			before, _ := q.look(t.Context())
			time.Sleep(c.every - time.Millisecond)
			same, _ := q.look(t.Context())
			assert.Equal(t, before, same)
			time.Sleep(time.Millisecond)
			next, _ := q.look(t.Context())
			assert.Equal(t, before+1, next)
		}
	})
}
