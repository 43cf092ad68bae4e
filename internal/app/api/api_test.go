package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/delayertest"
	"github.com/delayer-go/delayer/internal/app/certificate"
)

// A rig is an API on a Delayer in memory.
type rig struct {
	*testing.T
	*delayertest.Delayer
	api   *API
	token string // of requests; "" is none
}

func newRig(t *testing.T, with func(*Config), limits ...delayer.Limits) *rig {
	t.Helper()
	r := &rig{T: t}
	cfg := delayertest.Config{}
	if len(limits) > 0 {
		cfg.Limits = limits[0]
	}
	r.Delayer = delayertest.New(cfg)
	r.api = apiOf(t, with, Parts{Delayer: r.Delayer})
	return r
}

func apiOf(t testing.TB, with func(*Config), p Parts) *API {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	if with != nil {
		with(&cfg)
	}
	require.NoError(t, cfg.Check())
	files, err := cfg.Open()
	require.NoError(t, err)
	p.Answered = func(string, int, time.Duration) {}
	p.Prefix, p.Log = "delayer", slog.New(slog.DiscardHandler)
	p.Health = func(mux *http.ServeMux) {
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	}
	return New(cfg, files, p)
}

// ask sends a request. headers are names and values.
func (r *rig) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r.Helper()
	request := httptest.NewRequestWithContext(r.Context(), method, "http://localhost"+path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.api.ServeHTTP(w, request)
	return w
}

func (r *rig) post(body string, headers ...string) *httptest.ResponseRecorder {
	r.Helper()
	return r.ask(http.MethodPost, "/v1/messages", body, headers...)
}

func read[T any](t require.TestingT, w *httptest.ResponseRecorder) (v T) {
	dec := json.NewDecoder(strings.NewReader(w.Body.String()))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&v), w.Body.String())
	return v
}

// refused checks that an answer is a problem.
func (r *rig) refused(w *httptest.ResponseRecorder, status int, kind, detail string) Problem {
	r.Helper()
	require.Equal(r, status, w.Code, w.Body.String())
	assert.Equal(r, problemType, w.Header().Get("Content-Type"))
	p := read[Problem](r, w)
	assert.Equal(r, status, p.Status)
	assert.Equal(r, kind, p.Kind, p.Detail)
	assert.Contains(r, p.Detail, detail)
	assert.NotEmpty(r, p.Title)
	return p
}

func TestPublish(t *testing.T) {
	r := newRig(t, nil)
	w := r.post(`{"exchange": "orders", "key": "order.expired", "delay": "30m", "json": {"order" : 17},
		"headers": {"text": "x", "whole": 7, "half": 0.5, "yes": true, "none": null, "list": [1, "a"], "table": {"n": -1}},
		"properties": {"message_id": "order-17", "correlation_id": "c", "reply_to": "r", "type": "t", "app_id": "a",
			"content_encoding": "utf-8", "delivery_mode": 1, "priority": 3, "timestamp": "2026-11-23T20:00:00Z"}}`,
		"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate", "a=b", "baggage", "c=d")
	require.Equal(t, http.StatusCreated, w.Code, w.Body.String())
	answer := read[Accepted](t, w)
	assert.Equal(t, "order-17", answer.ID)
	assert.NotEmpty(t, answer.Ticket)
	assert.WithinDuration(t, time.Now().Add(30*time.Minute), answer.Due, time.Minute)
	require.Len(t, r.Published(), 1)
	m := r.Published()[0]
	assert.Equal(t, 30*time.Minute, m.Delay)
	assert.Equal(t, "orders", m.Exchange)
	assert.Equal(t, "order.expired", m.Key)
	assert.Equal(t, amqp091.Publishing{
		Headers: amqp091.Table{
			"text": "x", "whole": int64(7), "half": 0.5, "yes": true, "none": nil, "list": []any{int64(1), "a"}, "table": amqp091.Table{"n": int64(-1)},
			"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b", "baggage": "c=d",
		},
		MessageId: "order-17", CorrelationId: "c", ReplyTo: "r", Type: "t", AppId: "a", ContentEncoding: "utf-8", DeliveryMode: 1, Priority: 3,
		Timestamp: time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC), ContentType: "application/json", Body: []byte(`{"order" : 17}`),
	}, m.Publishing)
}

// TestPublish_Forms: what may be left out, and in which ways a body and a time can be written.
func TestPublish_Forms(t *testing.T) {
	for body, want := range map[string]struct{ text, contentType string }{
		`{"key": "q"}`:                    {"", ""},
		`{"key": "q", "text": "é\u0000"}`: {"é\x00", ""},
		`{"key": "q", "base64": "/wA="}`:  {"\xff\x00", ""},
		`{"key": "q", "json": null}`:      {"null", "application/json"},
		`{"key": "q", "json": "a", "properties": {"content_type": "x/y"}}`: {`"a"`, "x/y"},
		`{"key": "q", "due": "2001-01-01T00:00:00+01:00"}`:                 {"", ""},
		`{"key": "q", "delay": "0s", "text": null}`:                        {"", ""},
	} {
		r := newRig(t, nil)
		w := r.post(body)
		require.Equal(t, http.StatusCreated, w.Code, w.Body.String())
		answer := read[Accepted](t, w)
		assert.Len(t, answer.ID, 26)
		assert.Empty(t, answer.Ticket, "it is too late for one")
		assert.WithinDuration(t, time.Now(), answer.Due, time.Minute)
		m := r.Published()[0]
		assert.Equal(t, answer.ID, m.Publishing.MessageId)
		assert.Equal(t, want.text, string(m.Publishing.Body), body)
		assert.Equal(t, want.contentType, m.Publishing.ContentType)
		assert.Zero(t, m.Delay)
	}
	r := newRig(t, nil)
	w := r.post(`{"key": "q", "due": "`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`, "Idempotency-Key", "mine")
	require.Equal(t, http.StatusCreated, w.Code, w.Body.String())
	assert.Equal(t, "mine", read[Accepted](t, w).ID)
	assert.InDelta(t, time.Hour, r.Published()[0].Delay, float64(time.Minute))
	assert.Equal(t, "mine", r.Published()[0].Publishing.MessageId)
}

func TestPublish_Refused(t *testing.T) {
	r := newRig(t, nil)
	for body, detail := range map[string]string{
		`{"key": "q", "delay": "1s", "due": "2027-01-01T00:00:00Z"}`:             "delay and due are both there",
		`{"key": "q", "delay": 5}`:                                               "body.delay: expected string, with a unit: 30s, 90m or 2d",
		`{"key": "q", "delay": "5"}`:                                             `delay is "5": it must be a time with its unit`,
		`{"key": "q", "delay": "NaNd"}`:                                          "must be a time with its unit",
		`{"key": "q", "DELAY": "5s"}`:                                            "body.DELAY: unexpected property",
		`{"key": "q", "properties": {"timestamp": "0001-01-01T00:00:00Z"}}`:      "before 1970",
		`{"key": "q", "due": "tomorrow"}`:                                        "body.due: expected string to be RFC 3339 date-time",
		`{"key": "q", "due": "9999-01-01T00:00:00Z"}`:                            "292 years",
		`{"key": "q", "dely": "1s"}`:                                             "body.dely: unexpected property",
		`{"key": "q", "properties": {"expiration": "1"}}`:                        "body.properties.expiration: unexpected property",
		`{"key": "q", "properties": {"priority": 300}}`:                          "body.properties.priority: expected number <= 255",
		`{"key": "q", "text": "a", "json": null}`:                                "write one of them",
		`{"key": "q", "text": "a", "base64": "YQ=="}`:                            "write one of them",
		`{"key": "q", "base64": "?"}`:                                            "body.base64: expected string to be base64 encoded",
		`{"key": "q", "headers": {"n": [99999999999999999999]}}`:                 "does not fit into 64 bits",
		`{"key": "q", "headers": []}`:                                            "body.headers: expected object",
		`{"key": "q", "headers": {"CC": "q"}}`:                                   "header CC",
		`{"key": "q", "headers": {"n": "` + strings.Repeat("x", 128<<10) + `"}}`: "fit into a frame",
		`{"key": "` + strings.Repeat("x", 256) + `"}`:                            "AMQP allows 255",
		`{"key": "~d1"}`:                                                         "reserved",
		`"x"`:                                                                    "body: expected object",
	} {
		p := r.refused(r.post(body), http.StatusUnprocessableEntity, "invalid", detail)
		assert.True(t, p.SafeToRetry)
	}
	for body, detail := range map[string]string{
		"": "body is required", `{"key": "q"`: "unexpected end of JSON", `{"key": "q"} {}`: "after top-level value",
		"{\"key\": \"q\", \"text\": \"\xff\"}": "not UTF-8", `{"key": "q", "headers": {"n": 1e999}}`: "1e999",
	} {
		r.refused(r.post(body), http.StatusBadRequest, "invalid", detail)
	}
	r.refused(r.post(`{"key": "q", "delay": "-5s"}`), http.StatusUnprocessableEntity, "out_of_range", "-5s")
	r.refused(r.post(`{"key": "q"}`, "Content-Type", "text/plain"), http.StatusUnsupportedMediaType, "media_type", "text/plain")
	r.refused(r.post(`{"key": "q", "properties": {"message_id": "a"}}`, "Idempotency-Key", "b"), http.StatusUnprocessableEntity, "invalid", "differ")
	r.refused(r.post(`{"text": "x"}`), http.StatusUnprocessableEntity, "invalid", "give exchange, or key")
	assert.Empty(t, r.Published())
}

// TestPublish_Kinds: what a Delayer answers.
func TestPublish_Kinds(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		kind   string
		again  bool
		after  string
	}{
		{delayer.ErrUnroutable, 422, "unroutable", true, ""},
		{delayer.ErrInvalid, 422, "invalid", true, ""},
		{delayer.ErrOutOfRange, 422, "out_of_range", true, ""},
		{delayer.ErrRefused, 503, "refused", true, "5"},
		{delayer.ErrNotSent, 503, "unavailable", true, "5"},
		{delayer.ErrUnavailable, 503, "unavailable", true, "5"},
		{delayer.ErrClosed, 503, "unavailable", true, "5"},
		{delayer.ErrConflict, 503, "conflict", true, "5"},
		{delayer.ErrNotFound, 503, "conflict", true, "5"},
		{delayer.ErrAccess, 403, "access", true, ""},
		{delayer.ErrUnknown, 504, "unknown", false, ""},
		{errors.ErrUnsupported, 501, "unsupported", true, ""},
		{errors.New("amqp://user:hunter2@broker"), 500, "internal", true, ""},
	} {
		r := newRig(t, nil)
		r.FailNext(c.err)
		w := r.post(`{"key": "q", "delay": "1h"}`)
		p := r.refused(w, c.status, c.kind, "")
		assert.Equal(t, c.again, p.SafeToRetry, c.kind)
		assert.Equal(t, c.after, w.Header().Get("Retry-After"), c.kind)
		assert.NotContains(t, w.Body.String(), "hunter2")
		if !c.again {
			assert.Equal(t, r.Published()[0].Publishing.MessageId, p.ID)
			assert.NotEmpty(t, p.Ticket, "to cancel what may be stored")
		}
	}
	r := newRig(t, nil)
	r.FailNext(delayer.ErrRefused)
	assert.False(t, r.refused(r.post(`{"key": "q"}`), 503, "refused", "").SafeToRetry, "another queue may have it")
}

func TestBatch(t *testing.T) {
	r := newRig(t, nil)
	r.FailNext(nil, delayer.ErrUnroutable, delayer.ErrUnknown)
	w := r.ask(http.MethodPost, "/v1/messages/batch", `{"messages": [
		{"key": "a", "delay": "1h"}, {"key": "b", "delay": "1h"}, {"key": "c", "delay": "1s", "due": "2027-01-01T00:00:00Z"},
		{"key": "d", "delay": "1h"}, {"key": "delayer.unroutable"}, {"key": "e", "delay": "1h", "properties": {"message_id": "key.5"}}, {"key": "f", "properties": {"message_id": "mine"}}]}`,
		"Idempotency-Key", "key")
	require.Equal(t, http.StatusMultiStatus, w.Code, w.Body.String())
	results := read[struct{ Results []Result }](t, w).Results
	var seen []string
	for _, result := range results {
		if result.Problem != nil {
			assert.Equal(t, result.Status, result.Problem.Status)
			seen = append(seen, result.Problem.Kind)
			continue
		}
		assert.Equal(t, http.StatusCreated, result.Status)
		assert.NotNil(t, result.Due)
		seen = append(seen, result.ID)
	}
	assert.Equal(t, []string{"key.0", "unroutable", "invalid", "unknown", "forbidden", "key.5", "invalid"}, seen)
	assert.Equal(t, "key.3", results[3].Problem.ID)
	assert.False(t, results[3].Problem.SafeToRetry)
	assert.NotEmpty(t, results[3].Problem.Ticket, "it may be stored, and can be cancelled")

	batch := func(body string) *httptest.ResponseRecorder {
		return r.ask(http.MethodPost, "/v1/messages/batch", body)
	}
	w = batch(`{"messages": [{"key": "a"}, {"key": "b", "delay": "1h"}, {"key": "c", "delay": "1s"}]}`)
	assert.Equal(t, http.StatusCreated, w.Code)
	results = read[struct{ Results []Result }](t, w).Results
	assert.Empty(t, results[0].Ticket+results[2].Ticket, "there is no time to cancel them")
	assert.Equal(t, http.StatusNoContent, r.ask(http.MethodDelete, "/v1/messages/"+results[1].Ticket, "").Code)
	r.FailNext(delayer.ErrNotSent, delayer.ErrNotSent)
	w = batch(`{"messages": [{"key": "a"}, {"key": "b"}]}`)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "5", w.Header().Get("Retry-After"))
	before := len(r.Published())
	r.refused(batch(`{"messages": []}`), 422, "invalid", "array length >= 1")
	r.refused(batch(`{"messages": [{"key": "q"}, {"key": "q", "x": 1}]}`), 422, "invalid", "body.messages[1].x: unexpected property")
	many := strings.Repeat(`{"key": "q"},`, mostMessages) + `{"key": "q"}`
	r.refused(batch(`{"messages": [`+many+`]}`), 422, "invalid", "array length <= 1000")
	assert.Len(t, r.Published(), before, "nothing is published of a batch that is not understood")
}

// together schedules messages in one call, as slots.Delayer does.
type together struct {
	*delayertest.Delayer
	calls []int // of so many messages
}

func (d *together) ScheduleBatch(ctx context.Context, messages []delayer.Message) ([]delayer.Ticket, []error) {
	d.calls = append(d.calls, len(messages))
	tickets, errs := make([]delayer.Ticket, len(messages)), make([]error, len(messages))
	for i, m := range messages {
		tickets[i], errs[i] = d.Schedule(ctx, m)
	}
	return tickets, errs
}

func TestBatch_Together(t *testing.T) {
	r := newRig(t, nil)
	d := &together{Delayer: r.Delayer}
	r.api = apiOf(t, nil, Parts{Delayer: d})
	w := r.ask(http.MethodPost, "/v1/messages/batch", `{"messages": [{"key": "a"}, {"key": "b", "delay": "1h"}, {"key": "c", "delay": "1s"}, {"key": "d", "delay": "2h"}]}`)
	require.Equal(t, http.StatusCreated, w.Code, w.Body.String())
	results := read[struct{ Results []Result }](t, w).Results
	assert.Equal(t, []int{2}, d.calls)
	assert.Empty(t, results[0].Ticket+results[2].Ticket)
	for _, i := range []int{1, 3} {
		assert.NoError(t, r.Cancel(t.Context(), delayer.Ticket(results[i].Ticket)))
	}
	for _, m := range r.Waiting() {
		assert.Contains(t, []string{"a", "c"}, m.Key)
	}
}

func TestCancelAndPostpone(t *testing.T) {
	r := newRig(t, nil)
	publish := func() string { return read[Accepted](t, r.post(`{"key": "q", "delay": "1h"}`)).Ticket }
	path := func(ticket string) string { return "/v1/messages/" + ticket }
	ticket := publish()
	w := r.ask(http.MethodPatch, path(ticket), `{"delay": "2h"}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	answer := read[struct {
		Due    time.Time
		Ticket string
	}](t, w)
	assert.NotEqual(t, ticket, answer.Ticket)
	assert.WithinDuration(t, time.Now().Add(2*time.Hour), answer.Due, time.Minute)
	assert.Equal(t, 2*time.Hour, r.Waiting()[0].Delay.Round(time.Minute))
	w = r.ask(http.MethodDelete, path(answer.Ticket), "")
	require.Equal(t, http.StatusNoContent, w.Code, w.Body.String())
	assert.Empty(t, r.Waiting())

	ticket = publish()
	r.refused(r.ask(http.MethodPatch, path(ticket), `{}`), 422, "invalid", "delay or due")
	r.refused(r.ask(http.MethodPatch, path(ticket), `{"delay": "1m"}`), 422, "out_of_range", "")
	r.refused(r.ask(http.MethodPatch, path(ticket), `{"delay": "1h", "key": "q"}`), 422, "invalid", "body.key: unexpected property")
	for _, wrong := range []string{"x", "%00", strings.Repeat("x", 20_000), "%2e%2e", "a%2Fb"} {
		r.refused(r.ask(http.MethodDelete, path(wrong), ""), 404, "ticket", "")
	}
	r.FailNext(delayer.ErrUnknown)
	assert.True(t, r.refused(r.ask(http.MethodDelete, path(ticket), ""), 504, "unknown", "").SafeToRetry, "twice does no harm")
	r.Advance(2 * time.Hour)
	r.refused(r.ask(http.MethodDelete, path(publishedLate(r)), ""), 409, "too_late", "")

	r = newRig(t, nil, delayer.Limits{Max: time.Hour, Resolution: time.Millisecond})
	assert.Empty(t, publish())
	r.refused(r.ask(http.MethodDelete, path("x"), ""), 501, "unsupported", "use backend controller")
}

// TestID: the same id and due time are one message, whose ticket can be made of both.
func TestID(t *testing.T) {
	r := newRig(t, nil)
	due := r.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	body := fmt.Sprintf(`{"id": "remind/order 17", "due": %q, "key": "q"}`, due.Format(time.RFC3339Nano))
	r.FailNext(delayer.ErrUnknown)
	problem := r.refused(r.post(body), 504, "unknown", "")
	assert.True(t, problem.SafeToRetry, "both are one message")
	answer := read[Accepted](t, r.post(body))
	assert.Equal(t, Accepted{ID: "remind/order 17", Due: due, Ticket: problem.Ticket}, answer)
	results := read[struct{ Results []Result }](t, r.ask(http.MethodPost, "/v1/messages/batch", `{"messages": [`+body+`]}`)).Results
	assert.Equal(t, []Result{{Status: 201, ID: answer.ID, Due: &due, Ticket: answer.Ticket}}, results)
	require.Len(t, r.Waiting(), 1)

	named := "/v1/tickets?" + url.Values{"id": {"remind/order 17"}, "due": {due.Format(time.RFC3339Nano)}}.Encode()
	w := r.ask(http.MethodGet, named, "")
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	assert.Equal(t, answer.Ticket, read[struct{ Ticket string }](t, w).Ticket)
	require.Equal(t, http.StatusNoContent, r.ask(http.MethodDelete, "/v1/messages/"+answer.Ticket, "").Code)
	assert.Empty(t, r.Waiting())

	r.refused(r.post(`{"id": "x", "delay": "1h", "key": "q"}`), 422, "invalid", "id needs due")
	r.refused(r.post(fmt.Sprintf(`{"id": %q, "due": "2099-01-31T18:00:00Z", "key": "q"}`, strings.Repeat("ü", 21))), 422, "invalid", "the id has 42 bytes")
	r.refused(r.ask(http.MethodGet, "/v1/tickets?id=x", ""), 422, "invalid", "due")
	r.refused(r.ask(http.MethodGet, "/v1/tickets?id=x&due=tomorrow", ""), 422, "invalid", "due")
	r = newRig(t, nil, delayer.Limits{Max: time.Hour, Resolution: time.Millisecond})
	r.refused(r.post(body), 501, "unsupported", "use backend controller")
	r.refused(r.ask(http.MethodGet, named, ""), 501, "unsupported", "use backend controller")
}

// publishedLate is the ticket of a message that has been delivered.
func publishedLate(r *rig) string {
	ticket := read[Accepted](r, r.post(`{"key": "q", "delay": "1m"}`)).Ticket
	r.Advance(time.Hour)
	return ticket
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	sum := func(secret string) string { s := sha256.Sum256([]byte(secret)); return hex.EncodeToString(s[:]) }
	require.NoError(t, os.WriteFile(path, []byte(`
tokens:
  - {name: shop, sha256: `+sum("shop")+`, rights: [publish], exchanges: ["*"]}
  - {name: queues, sha256: `+sum("queues")+`, rights: [publish], queues: ["my.*", "delayer.*"]}
  - {name: operator, sha256: `+sum("operator")+`, rights: [cancel]}
`), 0o600))
	r := newRig(t, func(c *Config) { c.Listen, c.Tokens = ":0", path })
	to := func(token, message string) *httptest.ResponseRecorder { r.token = token; return r.post(message) }
	w := to("", `{"exchange": "orders"}`)
	r.refused(w, 401, "unauthorized", "Bearer")
	assert.Equal(t, `Bearer realm="delayer"`, w.Header().Get("WWW-Authenticate"))
	r.refused(to("wrong", `{"exchange": "orders"}`), 401, "unauthorized", "")
	assert.Equal(t, 201, to("shop", `{"exchange": "orders", "delay": "1h"}`).Code)
	r.refused(to("shop", `{"key": "my.queue"}`), 403, "forbidden", `queue "my.queue"`)
	r.refused(to("shop", `{"exchange": "delayer.delivery"}`), 403, "forbidden", "")
	assert.Equal(t, 201, to("queues", `{"key": "my.queue", "headers": {"CC": ["my.other"]}}`).Code)
	r.refused(to("queues", `{"key": "my.queue", "headers": {"CC": ["other"]}}`), 403, "forbidden", `queue "other"`)
	r.refused(to("queues", `{"key": "my.queue", "headers": {"BCC": ["my.x", "other"]}}`), 403, "forbidden", `queue "other"`)
	r.refused(to("queues", `{"key": "delayer.unroutable"}`), 403, "forbidden", "")
	r.refused(to("queues", `{"exchange": "orders"}`), 403, "forbidden", `exchange "orders"`)
	r.refused(to("operator", `{"exchange": "orders"}`), 403, "forbidden", `right "publish"`)

	ticket := read[Accepted](t, to("shop", `{"exchange": "orders", "delay": "1h"}`)).Ticket
	r.refused(r.ask(http.MethodDelete, "/v1/messages/"+ticket, ""), 403, "forbidden", `right "cancel"`)
	r.token = "operator"
	assert.Equal(t, 204, r.ask(http.MethodDelete, "/v1/messages/"+ticket, "").Code)
	assert.Equal(t, 200, r.ask(http.MethodGet, "/v1/limits", "").Code)
	r.token = ""
	r.refused(r.ask(http.MethodGet, "/v1/limits", ""), 401, "unauthorized", "")
	assert.Equal(t, 200, r.ask(http.MethodGet, "/openapi.json", "").Code)
}

// TestNoTokens: pages of other sites that a browser on this machine shows are no users of this
// machine.
func TestNoTokens(t *testing.T) {
	r := newRig(t, nil)
	r.refused(r.post(`{"key": "q"}`, "Origin", "https://evil.example"), 403, "forbidden", "another site")
	r.refused(r.post(`{"key": "q"}`, "Sec-Fetch-Site", "cross-site"), 403, "forbidden", "another site")
	for host, want := range map[string]int{"localhost:8080": 201, "127.0.0.1": 201, "[::1]:80": 201, "[::1]": 201, "evil.example": 403, "": 403, "10.0.0.1:80": 403} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/messages", strings.NewReader(`{"key": "q"}`))
		request.Host = host
		request.Header.Set("Content-Type", "application/json; charset=utf-8")
		w := httptest.NewRecorder()
		r.api.ServeHTTP(w, request)
		assert.Equal(t, want, w.Code, host)
	}
}

func TestPaths(t *testing.T) {
	r := newRig(t, nil)
	for _, path := range []string{"/", "/v1", "/v1/messages/", "/v1/messages/a/b", "/docs", "/schemas/Message.json", "/%00"} {
		r.refused(r.ask(http.MethodGet, path, ""), 404, "no_such_path", "")
	}
	r.refused(r.ask(http.MethodDelete, "/v1/messages/%00%2f..", ""), 404, "ticket", "")
	r.refused(r.ask(http.MethodPut, "/v1/messages", ""), 404, "no_such_path", "for this method")
	assert.Equal(t, "ok\n", r.ask(http.MethodGet, "/healthz", "").Body.String())
	limits := read[Limits](t, r.ask(http.MethodGet, "/v1/limits", ""))
	assert.Equal(t, int64(1000), limits.CancelBefore)
	assert.Equal(t, 1<<20, limits.MaxBody)
}

// TestRequests_TooLarge: no more is read than the limit.
func TestRequests_TooLarge(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxBody = 100 })
	fits := `{"key": "q", "text": "` + strings.Repeat("x", 100-24) + `"}`
	require.Len(t, fits, 100)
	assert.Equal(t, 201, r.post(fits).Code)
	r.refused(r.post(fits+" "), 413, "too_large", "too large")
	taken := 0
	endless := reader(func(p []byte) (int, error) { taken += len(p); return len(p), nil })
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/messages", endless)
	w := httptest.NewRecorder()
	r.api.ServeHTTP(w, request)
	r.refused(w, 413, "too_large", "too large")
	assert.Less(t, taken, 10_000)
}

// TestRequests_Together: the bodies of all requests have a limit together, before they are read.
func TestRequests_Together(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Timeout = 20 * time.Millisecond })
	require.True(t, r.api.bodies.TryAcquire(bodiesAtOnce-100))
	r.refused(r.post(`{"key": "q", "text": "`+strings.Repeat("x", 100)+`"}`), 503, "busy", "other requests")
	assert.Equal(t, 201, r.post(`{"key": "q"}`).Code)
	r.api.bodies.Release(bodiesAtOnce - 100)
	assert.True(t, r.api.bodies.TryAcquire(bodiesAtOnce), "all is given back")
}

type reader func([]byte) (int, error)

func (f reader) Read(p []byte) (int, error) { return f(p) }

// A blocked Delayer publishes when it is let.
type blocked struct {
	delayer.Delayer
	began, let chan struct{}
}

func (b blocked) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	b.began <- struct{}{}
	select {
	case <-b.let:
		return b.Delayer.Publish(ctx, exchange, key, delay, msg)
	case <-ctx.Done():
		return &delayer.Error{Op: "publish", Kind: delayer.ErrNotSent, Cause: fmt.Errorf("dial tcp 10.1.2.3:5672: %w", ctx.Err())}
	}
}

// TestRequests_BrokerAway: a request waits for the broker for so long and no longer.
func TestRequests_BrokerAway(t *testing.T) {
	r := newRig(t, nil)
	b := blocked{r.Delayer, make(chan struct{}, 1), make(chan struct{})}
	r.api = apiOf(t, func(c *Config) { c.Timeout = time.Millisecond }, Parts{Delayer: b})
	w := r.post(`{"key": "q"}`)
	p := r.refused(w, 503, "unavailable", "the broker cannot be reached")
	assert.True(t, p.SafeToRetry)
	assert.NotContains(t, w.Body.String(), "10.1.2.3", "clients need not know where the broker is")
}

func TestConfig(t *testing.T) {
	for want, with := range map[string]func(*Config){
		"serve.http.listen: invalid configuration: there is no address": func(c *Config) { c.Listen, c.Tokens = "", "f" },
		"serve.http.listen": func(c *Config) { c.Listen = "localhost" },
		"everybody who reaches 0.0.0.0:80 could publish": func(c *Config) { c.Listen = "0.0.0.0:80" },
		"everybody who reaches :80":                      func(c *Config) { c.Listen = ":80" },
		"everybody who reaches example.org:80":           func(c *Config) { c.Listen = "example.org:80" },
		"one of cert_file and key_file":                  func(c *Config) { c.TLS.CertFile = "x" },
		"max_body":                                       func(c *Config) { c.MaxBody = 0 },
		"max_connections":                                func(c *Config) { c.MaxConnections = 0 },
		"timeout":                                        func(c *Config) { c.Timeout = time.Hour },
	} {
		cfg := DefaultConfig()
		cfg.Listen = "[::1]:80"
		require.NoError(t, cfg.Check())
		with(&cfg)
		err := cfg.Check()
		require.ErrorIs(t, err, delayer.ErrConfig)
		assert.ErrorContains(t, err, want)
	}
	require.NoError(t, DefaultConfig().Check(), "there is none")
	cfg := Config{Tokens: filepath.Join(t.TempDir(), "none")}
	_, err := cfg.Open()
	require.ErrorContains(t, err, "serve.http.tokens")
	cfg = Config{TLS: certificate.Files{CertFile: "none", KeyFile: "none"}}
	_, err = cfg.Open()
	require.ErrorContains(t, err, "serve.http.tls")
}

// TestOpenAPI: the description names what there is, and only our kind of error.
func TestOpenAPI(t *testing.T) {
	r := newRig(t, nil)
	text := r.ask(http.MethodGet, "/openapi.json", "").Body.String()
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ Responses map[string]any }
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	assert.Equal(t, "3.1.0", doc.OpenAPI)
	var operations []string
	for path, methods := range doc.Paths {
		for method := range methods {
			operations = append(operations, method+" "+path)
		}
	}
	assert.ElementsMatch(t, []string{"post /v1/messages", "post /v1/messages/batch", "delete /v1/messages/{ticket}", "patch /v1/messages/{ticket}", "get /v1/tickets", "get /v1/limits"}, operations)
	assert.Contains(t, doc.Paths["/v1/messages"]["post"].Responses, "201")
	assert.Contains(t, doc.Paths["/v1/messages"]["post"].Responses, "504")
	assert.NotContains(t, text, "ErrorModel")
	assert.Len(t, doc.Components.Schemas["Message"].Properties, 10)
	assert.Contains(t, r.ask(http.MethodGet, "/openapi.yaml", "").Body.String(), "openapi: 3.1.0")
}
