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

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// An httpClient asks an HTTP API.
type httpClient struct {
	*testing.T
	base, token string
}

// ask returns the status and the object of an answer.
func (c httpClient) ask(method, path, body string) (status int, answer map[string]any) {
	c.Helper()
	request, err := http.NewRequestWithContext(c.Context(), method, c.base+path, bytes.NewBufferString(body))
	require.NoError(c, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+c.token)
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

// TestServe_HTTP: what is published by HTTP arrives, and can be cancelled and postponed.
func TestServe_HTTP(t *testing.T) {
	t.Parallel()
	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	config := configFile(t, fmt.Sprintf(`
url: %s
prefix: %s
backend: controller
serve:
  http: {listen: 127.0.0.1:0, timeout: 5s}
`, url, prefix))
	s := serve(t, "serve", "--config", config)
	c := httpClient{t, "http://" + rabbittest.Next(t, s.http), ""}
	queue := prefix + "-queue"
	in := consume(t, channel(t, url), queue)
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

	empty := prefix + "-empty"
	require.NoError(t, channel(t, url).ExchangeDeclare(empty, "topic", false, true, false, false, nil))
	for range 3 {
		status, answer = c.ask(http.MethodPost, "/v1/messages", fmt.Sprintf(`{"exchange": %q, "delay": "100ms"}`, empty))
		require.Equal(t, http.StatusCreated, status, answer)
	}
	s.eventually(t, `delayer_controller_delivered_total{result="dropped"} 3`)
	assert.Contains(t, s.logged(), `"exchange":"`+empty+`"`)
	status, answer = c.ask(http.MethodPost, "/v1/messages", fmt.Sprintf(`{"exchange": %q}`, empty))
	require.Equal(t, http.StatusUnprocessableEntity, status, answer)

	s.eventuallyLike(t, `delayer_http_request_seconds_count\{route="POST /v1/messages",status="201"\} \d+`)
	require.Equal(t, exitOK, s.stop())
	_, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
	require.Error(t, err, "nobody listens any more")
}
