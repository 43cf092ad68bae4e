package page

import (
	"context"
	"fmt"
	"html"
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
		"overdue, for 5m 0s", "in 4s", "with controllers", "known from the second look on", "Messages of this backend have no tickets", "Waiting",
	} {
		assert.Contains(t, plain(text), want)
	}
	assert.NotContains(t, text, "p.4s.3", "it is empty")

	rows := waitingOf(look{figures{Status: slots()}, reply{Known: true}}, false).Parts[0].Rows
	var order, byNumber []string
	for _, r := range rows {
		order = append(order, plain(string(r.What)))
	}
	for _, r := range waitingOf(look{figures{Status: slots()}, reply{Known: true}}, true).Parts[0].Rows {
		byNumber = append(byNumber, plain(string(r.What)))
	}
	assert.Equal(t, []string{"at once", "13:55", "14:00:34", "14:20 to 14:40"}, order)
	assert.Equal(t, []string{"14:20 to 14:40", "14:00:34", "13:55", "at once"}, byNumber)
	assert.Contains(t, w.body("/page/waiting?by=number"), `aria-sort="descending"`)

	w.at = w.at.Add(10 * time.Second)
	next := slots()
	next.Time, next.Waiting, next.Backends[0].Queues[1].Messages = w.at, ptr(1121), 1100
	w.broker.status = next
	text = html.UnescapeString(w.body("/page/waiting"))
	for _, want := range []string{"change in 10.0 s", "in 10.0 s: +10 a second", `<span class="figure">+100</span>`} {
		assert.Contains(t, text, want)
	}
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

// TestHistory: changes are told over the last minutes, and otherwise since the last look.
func TestHistory(t *testing.T) {
	var h history
	look := func(after time.Duration, n int) {
		s := slots()
		s.Time, s.Waiting = asked.Add(after), &n
		h = h.add(s)
	}
	look(0, 1)
	assert.Len(t, h, 1)
	look(3*time.Hour, 2)
	assert.Len(t, h, 2, "the last look counts, however long ago")
	for i := range 100 {
		look(3*time.Hour+time.Duration(i+1)*5*time.Second, 3+i)
	}
	assert.Len(t, h, 61)
	assert.Equal(t, changeOver, h[60].at.Sub(h[0].at))
	look(time.Hour, 1000)
	assert.Len(t, h, 1, "the clock was set back")

	q := slotOf("q", 0, time.Minute, 5)
	h = history{}.add(status.Status{Time: asked, Backends: []status.Backend{{Queues: []status.Queue{q}}}})
	assert.Equal(t, 5, h[0].queues[placeOf(q)])
	later := q.From.Add(time.Hour)
	q.From = &later
	assert.Zero(t, h[0].queues[placeOf(q)], "the slot serves another time")
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

// TestQuestion: the longer an answer takes, the less often the broker is asked, and no look waits
// long: answers of the last minute are shown if newer ones do not come at once, and of older ones it
// is said that newer are coming.
func TestQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes, asked := 20*time.Millisecond, 0
		q := newQuestion(time.Minute, time.Now, func(context.Context, int) (int, error) {
			asked++
			time.Sleep(takes)
			return asked, nil
		})
		defer q.Close()
		looks := func(wait time.Duration, known, coming bool) {
			t.Helper()
			began := time.Now()
			r := q.look(t.Context(), briefly)
			assert.Equal(t, []any{wait, known, coming, false}, []any{time.Since(began), r.Known, r.Coming, r.Old()})
			q.done.Wait()
		}
		looks(takes, true, false)
		for _, c := range []struct{ takes, every time.Duration }{
			{20 * time.Millisecond, askEvery}, {200 * time.Millisecond, 20 * time.Second}, {time.Second, mostEvery},
		} {
			time.Sleep(mostEvery)
			takes = c.takes
			q.look(t.Context(), takes)
			q.done.Wait()
			before := asked
			time.Sleep(c.every - takes - time.Millisecond)
			q.look(t.Context(), takes)
			q.done.Wait()
			assert.Equal(t, before, asked)
			time.Sleep(time.Millisecond)
			q.look(t.Context(), takes)
			q.done.Wait()
			assert.Equal(t, before+1, asked)
		}
		time.Sleep(mostEvery - takes)
		looks(briefly, true, false)
		time.Sleep(2 * mostEvery)
		looks(briefly, true, true)
		looks(0, true, false)
	})
	synctest.Test(t, func(t *testing.T) {
		q := newQuestion(time.Minute, time.Now, func(context.Context, int) (int, error) {
			time.Sleep(time.Second)
			return 1, nil
		})
		defer q.Close()
		assert.True(t, q.look(t.Context(), briefly).Coming)
		assert.True(t, q.look(t.Context(), figuresWithin).Known, "who needs an answer waits for the first one")
	})
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

// set makes figures be known, and be read: nil, they are not.
func (f *Figures) set(known look, going chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.next, f.going = reading[figures]{known.figures, known.reply}, f.now().Add(mostEvery), going
}

// TestFigures_Unread: while the first figures are read, each page says so, and a script looks again
// after a second.
func TestFigures_Unread(t *testing.T) {
	w := newSite(t, sample("delayer"), "")
	never := make(chan struct{})
	w.Figures.set(look{}, never)
	w.Retries.queues.going = never
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{"/", waitingPath, undeliveredPath, retriesPath} {
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:8080"+path, nil))
		for _, want := range []string{"The figures are being read", `<body data-next="1000">`, "<noscript> Load the page again.</noscript>", "/page/live.js"} {
			assert.Contains(t, answer.Body.String(), want, path)
		}
	}
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:8080"+unroutable, nil))
	assert.Contains(t, answer.Body.String(), "The queues are being read.")
	w.Figures.set(look{reply: reply{Err: context.DeadlineExceeded}}, nil)
	w.Retries.queues.going = nil
	assert.Contains(t, w.ask(http.MethodGet, unroutable, nil).Body.String(), "The broker does not answer.")
	assert.Contains(t, w.body("/"), `<body data-next="5000">`, "it is looked at all the time")
}
