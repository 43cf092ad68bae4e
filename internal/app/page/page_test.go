package page

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/app/tokens"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
	"github.com/delayer-go/delayer/status"
)

// asked is the time of all tests.
var asked = time.Date(2026, 11, 23, 14, 0, 30, 0, time.UTC)

// evil is in every text that is not the page's own.
const evil = `<script>alert("1")</script>'"&`

func ptr(n int) *int { return &n }

// sample is a status with something of everything.
func sample(name string) status.Status {
	minute := func(n int) time.Time { return asked.Truncate(time.Minute).Add(time.Duration(n) * time.Minute) }
	return status.Status{
		Time: asked, Broker: status.Broker{Address: "amqp://rabbit1:5672/" + name, Version: "4.3.6" + name}, Prefix: name, Waiting: ptr(21143),
		Backends: []status.Backend{
			{
				Name: "controller" + name, Configured: true, Waiting: ptr(1143), Changes: 12, Unread: ptr(0), Controllers: ptr(2),
				Queues: []status.Queue{{Name: name, Messages: 1143}},
				Due: []status.Due{
					{From: minute(-4), To: minute(-3), Messages: 3, Overdue: 3}, {From: minute(0), To: minute(1), Messages: 100}, {From: minute(1), To: minute(2), Messages: 900},
					{From: minute(40), To: minute(60), Messages: 110}, {From: minute(8 * 60), To: minute(10 * 60), Messages: 10}, {From: minute(3 * 24 * 60), To: minute(3*24*60 + 720), Messages: 20},
				},
			},
			{
				Name: "binaryladder" + name, Waiting: ptr(20000),
				Queues:  []status.Queue{{Name: name, Wait: 1000, Messages: 19000}, {Name: "b", Wait: 750_000, Messages: 1000}},
				Missing: []string{name},
			},
			{Name: "fixedtiers", Controllers: ptr(0)},
		},
		Misrouted: &status.Queue{Name: name, Messages: 1}, Unroutable: &status.Queue{Name: name, Messages: 3},
		Parked:   []status.Queue{{Name: name + ".parked", Messages: 4}},
		Policies: []string{name}, Unknown: []status.Unknown{{What: name, Why: name}},
	}
}

// A reader is a broker that answers what a test says.
type reader struct {
	status status.Status
	err    error
	reads  int
}

func (r *reader) Read(context.Context) (status.Status, error) { r.reads++; return r.status, r.err }
func (r *reader) Close() error                                { return nil }

// A site is a page under test, at a time that the test moves.
type site struct {
	*Page
	*testing.T
	broker *reader
	at     time.Time
	cookie string
	tells  tells
	heap   []*item // what the queues hold
	sent   []string
	log    strings.Builder
}

func newSite(t *testing.T, s status.Status, tokensFile string) *site {
	t.Helper()
	w := &site{T: t, broker: &reader{status: s}, at: asked}
	now := func() time.Time { return w.at }
	figures := newFigures(func(context.Context) (source, error) { return w.broker, nil }, func(context.Context) ([]entry.Depth, error) {
		return []entry.Depth{{Exchange: "orders" + evil, Waiting: 7, Parked: 8}}, nil
	}, now)
	rates := NewRates()
	rates.now, rates.watched = now, true
	backlog := newBacklog(func(_ context.Context, _ string, _ bool, visit func(*item) error) (int, error) {
		all := slices.Clone(w.heap)
		for _, m := range all {
			m.Mark = string(m.MessageID)
			if err := visit(m); errors.Is(err, errEnough) {
				break
			} else if err != nil {
				return 0, err
			}
		}
		return len(all), nil
	}, now)
	t.Cleanup(backlog.Close)
	p := Parts{Figures: figures, Backlog: backlog, Rates: rates, Retries: w.retried(now), Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	if tokensFile != "" {
		path := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(path, []byte(tokensFile), 0o600))
		var err error
		p.Tokens, err = tokens.Open(path)
		require.NoError(t, err)
	}
	w.Page = New(p)
	w.now, w.began = now, asked.Add(-time.Hour)
	return w
}

// ask sends a request with the cookie of the last login.
func (w *site) ask(method, path string, form url.Values, heads ...string) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequest(method, "http://localhost:8080"+path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if w.cookie != "" {
		r.AddCookie(&http.Cookie{Name: w.Page.cookie(), Value: w.cookie})
	}
	for i := 0; i+1 < len(heads); i += 2 {
		r.Header.Set(heads[i], heads[i+1])
	}
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	assert.Contains(w, answer.Header().Get("Content-Security-Policy"), "default-src 'none'")
	return answer
}

func (w *site) body(path string) string {
	w.Helper()
	answer := w.ask(http.MethodGet, path, nil)
	require.Equal(w, http.StatusOK, answer.Code, answer.Body)
	return answer.Body.String()
}

func hashOf(secret string) string {
	s := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(s[:])
}

func twoTokens() string {
	return "tokens: [{name: alice, sha256: " + hashOf("a") + ", rights: [view, act]}, {name: bob, sha256: " + hashOf("b") +
		", rights: [view]}, {name: shop, sha256: " + hashOf("s") + ", rights: [cancel]}]"
}

// login sends the form, and keeps the cookie.
func (w *site) login(token string) *httptest.ResponseRecorder {
	w.Helper()
	answer := w.ask(http.MethodPost, "/page/login", url.Values{"token": {token}}, "Origin", "http://localhost:8080")
	for _, c := range answer.Result().Cookies() {
		assert.True(w, c.HttpOnly)
		assert.Equal(w, http.SameSiteStrictMode, c.SameSite)
		w.cookie = c.Value
	}
	return answer
}

func TestOverview(t *testing.T) {
	w := newSite(t, sample("delayer"), "")
	for range 100 {
		w.Rates.delivered(delayer.DeliveryEvent{Lateness: 3 * time.Millisecond})
	}
	w.at = w.at.Add(time.Minute)
	text := w.body("/")
	for _, want := range []string{
		`<span class="figure"><a href="/page/waiting">21,143</a></span>`, "messages, about", `next hour, by minute`, `<strong>1,110</strong>`, // of which 110 in 20 minutes
		`14:01: 900`, "3 messages overdue, for 4m 30s",
		"no controller runs", "2 controllers at work", "policy: delayer", "1 queue missing", "100 messages, by this process", "3.0 ms",
		"read only", "to be passed on", `Nov 23 13:00:30 UTC</time>, 1h 1m ago`, `datetime="2026-11-23T14:00:30Z"`,
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "method=\"post\"", "nobody may do anything")
	assert.NotContains(t, text, "style=", "the policy forbids it")
}

// TestOverview_Escapes: what is not ours is text.
func TestOverview_Escapes(t *testing.T) {
	s := sample(evil)
	s.Others = []status.Queue{{Name: evil, Messages: 1}}
	w := newSite(t, s, "")
	for _, path := range []string{"/", waitingPath} {
		text := w.body(path)
		assert.NotContains(t, text, "<script>", "all but the page's own is text")
		assert.NotContains(t, text, "style=", "the policy forbids it")
		assert.Greater(t, strings.Count(text, "&lt;script&gt;alert"), 4)
	}
}

// TestFigures_Once: however many look, the broker is asked once in some seconds, and its last
// answer is kept while it is away.
func TestFigures_Once(t *testing.T) {
	w := newSite(t, sample("delayer"), "")
	for range 10 {
		w.body("/")
	}
	assert.Equal(t, 1, w.broker.reads)
	w.at, w.broker.err = w.at.Add(time.Minute), errors.New("delayer: it is gone")
	text := w.body("/")
	assert.Equal(t, 2, w.broker.reads)
	for _, want := range []string{"The broker does not answer.", "it is gone", "14:00:30 UTC", "21,143", `class="old"`} {
		assert.Contains(t, text, want)
	}
	w.at, w.broker.err = w.at.Add(time.Minute), nil
	w.broker.status.Time = w.at
	assert.NotContains(t, w.body("/"), "does not answer")
	empty := newSite(t, status.Status{}, "")
	empty.broker.err = context.DeadlineExceeded
	assert.Contains(t, empty.body("/"), "It did not answer in time.")
}

func TestAccess(t *testing.T) {
	w := newSite(t, sample("delayer"), twoTokens())
	answer := w.ask(http.MethodGet, "/", nil)
	assert.Equal(t, "/page/login", answer.Header().Get("Location"))
	assert.Contains(t, w.body("/page/login"), `type="password"`)

	assert.Equal(t, http.StatusUnauthorized, w.login("wrong").Code)
	assert.Equal(t, http.StatusForbidden, w.login("s").Code, "it has not the right view")
	assert.Empty(t, w.cookie)
	answer = w.ask(http.MethodPost, "/page/login", url.Values{"token": {"a"}}, "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, http.StatusForbidden, answer.Code)
	assert.Empty(t, answer.Result().Cookies())

	assert.Equal(t, http.StatusSeeOther, w.login("b").Code)
	assert.Contains(t, w.body("/"), "bob, read only")
	bobs := w.cookie
	w.login("a")
	text := w.body("/")
	assert.Contains(t, text, "alice")
	assert.NotEqual(t, bobs, w.cookie)
	assert.NotContains(t, w.log.String(), "token=")

	for name, heads := range map[string][]string{
		"another site":      {"Sec-Fetch-Site", "cross-site"},
		"another origin":    {"Origin", "http://evil.example"},
		"a sandboxed frame": {"Origin", "null"},
		"nobody knows":      {},
	} {
		assert.Equal(t, http.StatusForbidden, w.ask(http.MethodPost, "/page/logout", url.Values{}, heads...).Code, name)
	}
	w.body("/") // still logged in
	assert.Equal(t, http.StatusSeeOther, w.ask(http.MethodPost, "/page/logout", url.Values{}, "Sec-Fetch-Site", "same-origin").Code)
	assert.Equal(t, http.StatusSeeOther, w.ask(http.MethodGet, "/", nil).Code, "the session has ended")
	assert.Equal(t, http.StatusUnauthorized, w.ask(http.MethodPost, "/page/logout", url.Values{}).Code)

	w.login("a")
	w.at = w.at.Add(sessionFor + time.Second)
	assert.Equal(t, http.StatusSeeOther, w.ask(http.MethodGet, "/", nil).Code, "a cookie of yesterday")
}

// TestAccess_TokenGone: a session ends with its token, and has the rights that the token has now.
func TestAccess_TokenGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(twoTokens())
	file, err := tokens.Open(path)
	require.NoError(t, err)
	w := newSite(t, sample("delayer"), "")
	w.Tokens = file
	w.login("a")
	write("tokens: [{name: alice, sha256: " + hashOf("a") + ", rights: [view]}]")
	require.NoError(t, file.Read())
	assert.Contains(t, w.body("/"), "alice, read only")
	write("tokens: [{name: bob, sha256: " + hashOf("b") + ", rights: [view]}]")
	require.NoError(t, file.Read())
	assert.Equal(t, http.StatusSeeOther, w.ask(http.MethodGet, "/", nil).Code)
}

// put puts a message into the queues. stays is why it cannot be sent.
func (w *site) put(name, stays string, body []byte) {
	text := messagejson.Text(name)
	m := &item{Message: kept.Message{
		To: name, Key: text, MessageID: text, Why: name, LastError: name, Size: len(body), Since: messagejson.Instant(asked),
	}}
	m.whole = func() kept.Whole {
		return kept.Whole{
			Failures: []kept.Failure{{Attempt: 1, At: asked, Error: name}},
			Content:  undelivered.Content{Properties: messagejson.Properties{Type: text}, Body: body},
		}
	}
	m.remove = func() error {
		w.heap = slices.DeleteFunc(w.heap, func(other *item) bool { return other == m })
		return nil
	}
	m.retry = func(context.Context) (string, error) {
		if stays != "" {
			return stays, nil
		}
		w.sent = append(w.sent, name)
		return "", m.remove()
	}
	w.heap = append(w.heap, m)
}

// act sends a form of the page, and waits for what it begins.
func (w *site) act(form url.Values) *httptest.ResponseRecorder {
	w.Helper()
	answer := w.ask(http.MethodPost, "/page/act", form, "Sec-Fetch-Site", "same-origin")
	w.Backlog.done.Wait()
	return answer
}

const unroutable = "/page/queue?queue=delayer.unroutable"

func undeliveredSample() status.Status {
	s := sample("delayer")
	s.Unroutable.Name = "delayer.unroutable"
	return s
}

func TestUndelivered(t *testing.T) {
	w := newSite(t, undeliveredSample(), twoTokens())
	w.login("a")
	for _, name := range []string{"a", "b", "c", evil} {
		w.put(name, "", []byte(`{"n": "`+name+`"}`))
	}
	w.put("full", "the queue refuses it", []byte{0xff, 0, 1})
	text := w.body("/page/undelivered")
	for _, want := range []string{"delayer.unroutable", "delayer.serve.parked.orders", "delayer.parked"} {
		assert.Contains(t, text, want)
	}
	text = w.body(unroutable)
	assert.Contains(t, text, "5 messages, the oldest first")
	assert.Contains(t, text, `value="b.0"`)
	assert.NotContains(t, text, "<script>alert")
	text = w.body("/page/message?queue=delayer.unroutable&id=" + url.QueryEscape(evil+".0"))
	assert.NotContains(t, text, "<script>alert")
	assert.Equal(t, 7, strings.Count(text, "&lt;script&gt;alert")-strings.Count(text, `value="&lt;script`))
	assert.Contains(t, w.body("/page/message?queue=delayer.unroutable&id=full.0"), "ff 00 01")
	file := w.ask(http.MethodGet, "/page/message?queue=delayer.unroutable&id=full.0&as=file", nil)
	assert.Equal(t, "application/octet-stream", file.Header().Get("Content-Type"))
	assert.Contains(t, file.Header().Get("Content-Disposition"), "attachment")
	assert.Equal(t, []byte{0xff, 0, 1}, file.Body.Bytes())
	assert.Equal(t, http.StatusNotFound, w.ask(http.MethodGet, "/page/message?queue=delayer.unroutable&id=gone.0", nil).Code)
	assert.Equal(t, http.StatusNotFound, w.ask(http.MethodGet, "/page/queue?queue=orders", nil).Code, "it is not one of those that the page shows")

	selected := url.Values{"queue": {"delayer.unroutable"}, "action": {"retry"}, "id": {"a.0", "full.0", "gone.0"}}
	answer := w.act(selected)
	assert.Contains(t, answer.Body.String(), "Retry 3 messages?")
	assert.Empty(t, w.sent, "it asks first")
	selected.Set("sure", "yes")
	assert.Equal(t, "/page/job", w.act(selected).Header().Get("Location"))
	assert.Equal(t, []string{"a"}, w.sent)
	text = w.body("/page/job")
	for _, want := range []string{"1 of 3 sent", "full: the queue refuses it", "1 was not in the queue any more"} {
		assert.Contains(t, text, want)
	}
	assert.Contains(t, w.log.String(), "who=alice action=retry queue=delayer.unroutable asked=3 done=1 stay=1 gone=1")

	w.act(url.Values{"queue": {"delayer.unroutable"}, "action": {"delete"}, "which": {"all"}, "count": {"2"}, "sure": {"yes"}})
	assert.Len(t, w.heap, 2, "those that came after the question stay")
	assert.Contains(t, w.body("/page/job"), "2 of 2 deleted")
	assert.Equal(t, []string{"a"}, w.sent)
	for _, form := range []url.Values{
		{"queue": {"delayer.unroutable"}, "action": {"other"}, "id": {"b.0"}, "sure": {"yes"}},
		{"queue": {"delayer.unroutable"}, "action": {"delete"}, "which": {"all"}, "count": {"-1"}, "sure": {"yes"}},
	} {
		assert.Equal(t, http.StatusBadRequest, w.act(form).Code, form)
	}
	assert.Len(t, w.heap, 2)
	none := w.act(url.Values{"queue": {"delayer.unroutable"}, "action": {"delete"}, "find": {"full"}, "which": {"selected"}})
	text = w.body(none.Header().Get("Location"))
	assert.Contains(t, text, "No message was selected, so nothing was done")
	assert.Contains(t, text, "1 of 2 match", "the list is still there")

	w.login("b")
	assert.NotContains(t, w.body(unroutable), "Delete")
	assert.Equal(t, http.StatusForbidden, w.act(selected).Code, "bob may only look")
}

// TestBacklog_Once: of two who do the same at once, the second does nothing.
func TestBacklog_Once(t *testing.T) {
	w := newSite(t, undeliveredSample(), "")
	going, held := make(chan struct{}), make(chan struct{})
	w.put("a", "", nil)
	w.heap[0].retry = func(context.Context) (string, error) { close(going); <-held; return "", nil }
	require.True(t, w.Backlog.start("", order{Queue: "q", Action: "retry", Count: 1}, w.Page.Log))
	<-going
	assert.False(t, w.Backlog.start("", order{Queue: "q", Action: "retry", Count: 1}, w.Page.Log))
	assert.Contains(t, w.body("/page/job"), `data-next="1000"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Backlog.walk(ctx, "q", false, nil)
	require.ErrorContains(t, err, "somebody else")
	close(held)
	w.Backlog.done.Wait()
	assert.Equal(t, 1, w.Backlog.last().Done)
}

// TestBacklog_Alike: messages that are alike are not one.
func TestBacklog_Alike(t *testing.T) {
	w := newSite(t, undeliveredSample(), "")
	w.put("a", "", nil)
	w.put("a", "", nil)
	var ids []string
	total, err := w.Backlog.walk(t.Context(), "q", false, func(m *item) error { ids = append(ids, m.Mark); return nil })
	require.NoError(t, err)
	assert.Equal(t, 2, total)
	assert.Equal(t, []string{"a.0", "a.1"}, ids)
}

func TestReadable(t *testing.T) {
	for name, c := range map[string]struct {
		body       string
		text, form string
		cut        bool
	}{
		"nothing":         {"", "", "text", false},
		"JSON":            {`{"a":1}`, "{\n  \"a\": 1\n}", "JSON", false},
		"text":            {"grüße", "grüße", "text", false},
		"a long one":      {strings.Repeat("x", mostText+1), strings.Repeat("x", mostText), "text", true},
		"a cut character": {strings.Repeat("x", mostText-1) + "ü", strings.Repeat("x", mostText-1), "text", true},
	} {
		text, form, cut := readable([]byte(c.body))
		assert.Equal(t, c.text, text, name)
		assert.Equal(t, c.form, form, name)
		assert.Equal(t, c.cut, cut, name)
	}
}

// TestDuePanels_About: of a slot that reaches beyond a picture only a share is in it.
func TestDuePanels_About(t *testing.T) {
	list := duePanels([]status.Due{{From: asked.Add(30 * time.Minute), To: asked.Add(90 * time.Minute), Messages: 60}, {From: asked.Add(-time.Hour), To: asked, Messages: 9}}, asked)
	assert.Equal(t, "about 30", list[0].Sum)
	assert.Equal(t, "60", list[1].Sum)
	assert.Equal(t, "60", list[2].Sum)
}

func TestRates(t *testing.T) {
	at := asked
	r := NewRates()
	r.now = func() time.Time { return at }
	for i := range 1000 {
		r.delivered(delayer.DeliveryEvent{Lateness: time.Duration(i) * time.Millisecond})
		r.delivered(delayer.DeliveryEvent{Err: errors.New("refused")})
	}
	r.delivered(delayer.DeliveryEvent{Lateness: -time.Second}) // clocks may differ
	assert.Zero(t, r.hour().N, "the minute is not over")
	at = at.Add(time.Minute)
	h := r.hour()
	assert.Equal(t, 1001, h.N)
	assert.Equal(t, 999*time.Millisecond, h.Late)
	assert.InDelta(t, 1001.0/60, h.Now, 1e-9)
	at = at.Add(time.Minute)
	assert.Zero(t, r.hour().Now)
	at = at.Add(time.Hour)
	assert.Zero(t, r.hour().N)
}

// filled is a page with n messages, of which every third is for another exchange.
func filled(t *testing.T, n int) *site {
	t.Helper()
	w := newSite(t, undeliveredSample(), "tokens: [{name: alice, sha256: "+hashOf("a")+", rights: [view, act]}, {name: carol, sha256: "+hashOf("c")+", rights: [view, act]}]")
	w.login("a")
	for i := range n {
		w.put(fmt.Sprintf("m%d", i), "", nil)
		m := w.heap[i]
		exchange := messagejson.Text([]string{"orders", "billing", "billing"}[i%3])
		m.Exchange = &exchange
	}
	return w
}

// TestFind: what matches is counted for the question, and no more than that is acted on.
func TestFind(t *testing.T) {
	w := filled(t, 30)
	text := w.body(unroutable + "&find=Exchange+orders")
	assert.Contains(t, text, "10 of 30 match</strong>: Exchange orders.")
	assert.Contains(t, text, "all 10 that match")
	assert.NotContains(t, text, ">m1<")

	form := func() url.Values {
		return url.Values{"queue": {"delayer.unroutable"}, "action": {"delete"}, "which": {"all"}, "find": {"exchange orders"}, "count": {"30"}}
	}
	text = w.act(form()).Body.String()
	assert.Contains(t, text, "Delete 10 messages?")
	assert.Contains(t, text, "exchange orders")
	assert.Contains(t, text, `name="find" value="exchange orders"`)
	assert.Len(t, w.heap, 30)

	w.put("late", "", nil) // after the question
	w.heap[30].Exchange = w.heap[0].Exchange
	yes := form()
	yes.Set("count", "10")
	yes.Set("sure", "yes")
	assert.Equal(t, "/page/job", w.act(yes).Header().Get("Location"))
	assert.Contains(t, w.body("/page/job"), "10 of 10 deleted")
	assert.Len(t, w.heap, 21)
	assert.Equal(t, "late", string(w.heap[20].MessageID))
	w.act(yes)
	assert.Contains(t, w.body("/page/job"), "1 of 10 deleted")
	assert.Contains(t, w.body("/page/job"), "9 were not in the queue any more")
	for _, text := range []string{
		"an action of the page has begun\" who=alice action=delete queue=delayer.unroutable asked=10",
		"an action of the page has ended\" who=alice action=delete queue=delayer.unroutable asked=10 done=10",
	} {
		assert.Contains(t, w.log.String(), text)
	}
	f := form()
	f.Set("find", "nope")
	assert.Contains(t, w.act(f).Body.String(), "No message matches any more")
	assert.Len(t, w.heap, 20)
}

// TestItem_Reason: why a message was given up is told with its last error, and a long one is cut in
// the list.
func TestItem_Reason(t *testing.T) {
	reason := func(m kept.Message) string { return (&item{Message: m}).Reason() }
	assert.Equal(t, "all 3 attempts failed: 503", reason(kept.Message{Attempts: 3, LastError: "503", Why: "all 3 attempts failed"}))
	assert.Equal(t, "3 attempts, permanent error: 503", reason(kept.Message{Attempts: 3, LastError: "503", Why: "permanent error"}))
	assert.Equal(t, strings.Repeat("ü", 160)+"…", (&item{Message: kept.Message{Why: strings.Repeat("ü", 161)}}).Brief())
}

// TestList_Most: of many messages the oldest are shown.
func TestList_Most(t *testing.T) {
	w := filled(t, mostShown+1)
	assert.Contains(t, w.body(unroutable), "201 messages, the oldest first; 200 are shown")
}

// TestPage_GetHasNoBody: a form in the body of a GET is not read, and its files fill no disk.
func TestPage_GetHasNoBody(t *testing.T) {
	w := filled(t, 1)
	for _, path := range []string{"/page/waiting", "/page/ticket", unroutable} {
		body := iotest.ErrReader(errors.New("it was read"))
		r := httptest.NewRequest(http.MethodGet, "http://localhost:8080"+path, body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		r.AddCookie(&http.Cookie{Name: w.Page.cookie(), Value: w.cookie})
		w.ServeHTTP(httptest.NewRecorder(), r)
		_, err := r.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, path)
	}
}

// tells is what the broker tells of retries.
type tells struct {
	retried retried
	err     error
}

func (w *site) retried(now func() time.Time) *question[retried] {
	return &question[retried]{now: now, ask: func(context.Context) (retried, error) { return w.tells.retried, w.tells.err }}
}

// attempts is a queue of which the broker counts attempts.
func attempts(q retryQueue, ended int, rate float64) retryQueue {
	q.There, q.Stats.Ended, q.Stats.Rate.ASecond = true, &ended, &rate
	return q
}

func TestRetries(t *testing.T) {
	w := newSite(t, undeliveredSample(), "")
	assert.Contains(t, w.body("/page/retries"), "No queue of parked messages is known")

	w.at = w.at.Add(time.Minute)
	long := strings.Repeat("ü", 127) + "/"
	w.tells.retried = retried{More: 3, Queues: []retryQueue{
		attempts(retryQueue{Name: "delayer" + evil, Parked: "delayer" + evil + ".parked", Ready: 1, Handling: 2, Workers: 3, Given: 4}, 98765, 1.25),
		{Name: long, Parked: long + ".parked", There: true, Ready: 7},
		{Name: "遅延", Parked: "遅延.parked"},
	}}
	text := w.body("/page/retries")
	for _, want := range []string{"98,765", ">1.25<", "nobody consumes it", "there is no such queue", "遅延", "3 more, with fewer", "delayer_retry_attempts_total"} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "<script>", "all but the page's own is text")
	assert.Contains(t, text, "/page/queue?queue=delayer%3cscript%3e", "it is escaped")

	w.at, w.tells.err = w.at.Add(time.Minute), context.DeadlineExceeded
	text = w.body("/page/retries")
	assert.Contains(t, text, "The broker does not answer.")
	assert.Contains(t, text, "98,765")
}

func TestPick(t *testing.T) {
	list, more := pick([]parkedQueue{{"b.parked", 1}, {"a.parked", 1}, {"c.parked", 9}, {".parked", 3}, {"x.parked.y", 3}, {"p.serve.parked.x.parked", 3}}, "p")
	require.Zero(t, more)
	require.Equal(t, []retryQueue{{Name: "c", Parked: "c.parked", Given: 9}, {Name: "a", Parked: "a.parked", Given: 1}, {Name: "b", Parked: "b.parked", Given: 1}}, list)

	var many []parkedQueue
	for i := range mostRetried + 3 {
		many = append(many, parkedQueue{fmt.Sprintf("%d.parked", i), i})
	}
	list, more = pick(many, "p")
	require.Len(t, list, mostRetried)
	require.Equal(t, 3, more)
	require.Equal(t, mostRetried+2, list[0].Given)
}

// TestRetryQueue: what the broker does not count is not zero.
func TestRetryQueue(t *testing.T) {
	var q retryQueue
	require.NoError(t, json.Unmarshal([]byte(`{"messages_ready":1,"messages_unacknowledged":2,"consumers":3}`), &q))
	require.Equal(t, retryQueue{Ready: 1, Handling: 2, Workers: 3}, q)
	require.NoError(t, json.Unmarshal([]byte(`{"message_stats":{"ack":7,"ack_details":{"rate":0.4}}}`), &q))
	require.Equal(t, 7, *q.Stats.Ended)
	require.InDelta(t, 0.4, *q.Stats.Rate.ASecond, 0)
}
