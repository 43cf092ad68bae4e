package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// An httpClient asks an HTTP API.
type httpClient struct {
	*testing.T
	base string
}

// ask returns the status and the object of an answer.
func (c httpClient) ask(method, path, body string) (status int, answer map[string]any) {
	c.Helper()
	return c.askAs("", method, path, body)
}

// askAs is ask with a token.
func (c httpClient) askAs(token, method, path, body string) (status int, answer map[string]any) {
	c.Helper()
	request, err := http.NewRequestWithContext(c.Context(), method, c.base+path, bytes.NewBufferString(body))
	require.NoError(c, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	got, err := http.DefaultClient.Do(request)
	require.NoError(c, err)
	defer got.Body.Close() //nolint:errcheck // it is read
	if got.StatusCode != http.StatusNoContent {
		require.NoError(c, json.NewDecoder(got.Body).Decode(&answer))
	}
	return got.StatusCode, answer
}

// ticketID is the end of the id in a ticket, which is followed by a checksum.
func ticketID(t *testing.T, ticket string) string {
	t.Helper()
	const id, checksum = 20, 4
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(ticket, "d2."))
	require.NoError(t, err)
	require.Greater(t, len(text), id+checksum)
	return string(text[len(text)-id-checksum : len(text)-checksum])
}

// TestServe_HTTP: what is published by HTTP arrives, can be cancelled and postponed, and waits for
// no broker that is away.
func TestServe_HTTP(t *testing.T) {
	t.Parallel()
	b, prefix := rabbittest.Broker(t), rabbittest.Prefix(t)
	proxy, err := faults.NewProxy(b.URL())
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	config := configFile(t, fmt.Sprintf(`
url: %s
prefix: %s
backend: controller
serve:
  http: {listen: 127.0.0.1:0, timeout: 5s}
`, proxy.URL(b.URL()), prefix))
	s := serve(t, "serve", "--config", config)
	c := httpClient{t, "http://" + rabbittest.Next(t, s.http)}
	queue := prefix + "-queue"
	in := consume(t, channel(t, b.URL()), queue)
	next := func() amqp091.Delivery { t.Helper(); return rabbittest.Next(t, in) }
	message := func(delay, text string) string {
		return fmt.Sprintf(`{"key": %q, "delay": %q, "text": %q, "headers": {"n": 7}, "properties": {"message_id": %q}}`, queue, delay, text, "id of "+text)
	}
	publish := func(delay, text string) (ticket string) {
		t.Helper()
		status, answer := c.ask(http.MethodPost, "/v1/messages", message(delay, text))
		require.Equal(t, http.StatusCreated, status, answer)
		assert.Equal(t, "id of "+text, answer["id"])
		ticket, _ = answer["ticket"].(string)
		return ticket
	}

	began := time.Now()
	require.Empty(t, publish("3s", "later"))
	require.Empty(t, publish("0s", "at once"))
	require.Equal(t, "at once", string(next().Body))
	d := next()
	require.Equal(t, "later", string(d.Body))
	assert.GreaterOrEqual(t, time.Since(began), 3*time.Second)
	assert.Equal(t, int64(7), d.Headers["n"])
	assert.Equal(t, "id of later", d.MessageId)

	cancelled, postponed := publish("30s", "cancelled"), publish("30s", "postponed")
	mine, others := ticketID(t, cancelled), ticketID(t, postponed)
	require.Regexp(t, "^[A-Z2-7]{20}$", mine, "nobody can guess the ticket of another message")
	require.NotEqual(t, mine[:10], others[:10])
	status, _ := c.ask(http.MethodDelete, "/v1/messages/"+cancelled, "")
	require.Equal(t, http.StatusNoContent, status)
	status, answer := c.ask(http.MethodPatch, "/v1/messages/"+postponed, `{"delay": "1h"}`)
	require.Equal(t, http.StatusOK, status, answer)
	assert.NotEqual(t, postponed, answer["ticket"])

	status, answer = c.ask(http.MethodPost, "/v1/messages", `{"exchange": "`+prefix+`-nowhere", "delay": "1s"}`)
	assert.Equal(t, http.StatusUnprocessableEntity, status, answer)
	assert.Equal(t, "unroutable", answer["kind"])
	status, answer = c.ask(http.MethodPost, "/v1/messages", `{"exchange": "amq.topic", "key": "`+prefix+`"}`)
	assert.Equal(t, http.StatusUnprocessableEntity, status, answer)
	assert.Equal(t, "unroutable", answer["kind"], "nothing is bound for the key")

	status, answer = c.ask(http.MethodPost, "/v1/messages/batch",
		fmt.Sprintf(`{"messages": [%s, %s, {"key": "%s-nowhere"}, %s]}`, message("0s", "a"), message("2s", "b"), prefix, message("30s", "never")))
	require.Equal(t, http.StatusMultiStatus, status, answer)
	results := answer["results"].([]any)
	require.Len(t, results, 4)
	status, _ = c.ask(http.MethodDelete, "/v1/messages/"+results[3].(map[string]any)["ticket"].(string), "")
	require.Equal(t, http.StatusNoContent, status, "one of a batch can be cancelled")
	for _, want := range []string{"a", "b"} {
		require.Equal(t, want, string(next().Body))
	}

	proxy.Set(faults.Down)
	for _, path := range []string{"/v1/messages", "/v1/messages/batch"} {
		body := message("0s", "away")
		if path != "/v1/messages" {
			body = `{"messages": [` + body + `]}`
		}
		require.EventuallyWithT(t, func(ct *assert.CollectT) { // at first it may be unknown
			status, answer := c.ask(http.MethodPost, path, body)
			require.Equal(ct, http.StatusServiceUnavailable, status, answer)
		}, time.Minute, time.Millisecond)
	}
	proxy.Set(faults.Pass)
	require.EventuallyWithT(t, func(ct *assert.CollectT) { // connections come back within seconds
		status, answer := c.ask(http.MethodPost, "/v1/messages", message("0s", "back"))
		require.Equal(ct, http.StatusCreated, status, answer)
	}, time.Minute, time.Millisecond)
	for string(next().Body) != "back" { // what was unconfirmed when the connections broke may come twice
	}
	s.eventuallyLike(t, `delayer_http_request_seconds_count\{route="POST /v1/messages",status="201"\} \d+`)
	require.Equal(t, exitOK, s.stop())
	_, err = net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
	require.Error(t, err, "nobody listens any more")
}
