package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/chromium"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/message"
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

// pageTokens are those of "secret", who may look and publish, and of "bob", who may act.
const pageTokens = `tokens:
  - name: alice
    sha256: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b
    rights: [view, publish]
    queues: ['*']
  - name: bob
    sha256: 81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9
    rights: [view, act]
`

// A tab is one of a browser.
type tab struct {
	*testing.T
	ctx context.Context
}

func (p tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	require.NoError(p, chromedp.Do(p.ctx, steps...))
}

// open opens an address again and again until the page says all of this.
func (p tab) open(address string, want ...string) {
	p.Helper()
	require.EventuallyWithT(p, func(ct *assert.CollectT) {
		require.NoError(ct, chromedp.Do(p.ctx, chromedp.Navigate(address)))
		text, err := chromedp.Run(p.ctx, chromedp.Text("body"))
		require.NoError(ct, err)
		for _, one := range want {
			require.Contains(ct, text, one)
		}
	}, time.Minute, 100*time.Millisecond)
}

func (p tab) login(token string) {
	p.Helper()
	p.do(chromedp.SendKeys("#token", token), chromedp.Click("main button"), chromedp.WaitVisible(".facts"))
}

// says checks what is to be read.
func (p tab) says(want string) {
	p.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Text("body"))
	require.NoError(p, err)
	require.Contains(p, text, want)
}

// TestServe_Page: in a browser somebody logs in, sees what waits, postpones a message by its
// ticket, sends an undelivered message again and deletes another one.
func TestServe_Page(t *testing.T) {
	t.Parallel()
	p := tab{t, chromium.Start(t)}
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte(pageTokens), 0o600))
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf(`
url: %s
prefix: %s
backend: controller
serve:
  http: {listen: 127.0.0.1:0, page: true, tokens: %s}
`, r.Broker.URL(), r.Prefix, tokens)))
	base := "http://" + rabbittest.Next(t, s.http)
	queue := r.Prefix + "-'\"/ü<script>alert(1)</script>"
	in := consume(t, channel(t, r.Broker.URL()), queue)

	p.open(base, "Log in")
	p.do(chromedp.SendKeys("#token", "wrong"), chromedp.Click("main button"), chromedp.WaitVisible("[role=alert]"))
	p.login("secret")
	p.says("alice, read only")
	p.says("1 controller at work")
	_, sent := httpClient{t, base, "secret"}.ask(http.MethodPost, "/v1/messages", fmt.Sprintf(`{"key": %q, "delay": "30m"}`, queue))
	ticket := fmt.Sprint(sent["ticket"])
	p.do(chromedp.WaitVisible(".panel rect")) // the script has replaced the picture
	p.says("1 next hour, by minute")
	p.open(base+"/page/waiting", "1 message. The controller that leads counts them")
	p.do(chromedp.SendKeys("#ticket", ticket), chromedp.Click(".find button"), chromedp.WaitVisible(".whole"))
	p.says("You may look, but not cancel or postpone")
	p.do(chromedp.Click(".who button"), chromedp.WaitVisible("#token"))
	p.login("bob")
	p.open(base+"/page/ticket?ticket="+ticket, "Postpone…")
	p.do(chromedp.SendKeys("#by", "1h"), chromedp.Click("button[value=postpone]"), chromedp.WaitVisible(".narrow button"),
		chromedp.Click(".narrow button"), chromedp.WaitVisible("h1 [role=status]"))
	p.says("1 message postponed")
	require.Contains(t, s.logged(), `"who":"bob","action":"postpone"`)

	kept := r.Prefix + ".unroutable"
	for _, id := range []string{"one", "two"} {
		r.Publish(kept+".keep", queue, amqp091.Publishing{MessageId: id, Body: []byte("<script>" + id), Headers: amqp091.Table{
			delayer.Header: message.Envelope{ID: id, Due: time.Now()}.String(),
		}})
	}
	p.open(base+"/page/queue?queue="+kept, "2 messages, the oldest first", "queue was gone, is there now: retry")
	p.do(chromedp.Click("tbody tr:nth-child(2) a"), chromedp.WaitVisible("pre"))
	p.says("<script>two")
	p.do(chromedp.Click("button[value=retry]"), chromedp.WaitVisible(".narrow button"), chromedp.Click(".narrow button"))
	require.Equal(t, "two", rabbittest.Next(t, in).MessageId)
	p.open(base+"/page/job", "1 of 1 sent")
	p.open(base+"/page/queue?queue="+kept, "1 message, the oldest first")
	p.do(chromedp.Click("input[value=all]"), chromedp.Click("button[value=delete]"), chromedp.WaitVisible(".narrow button"))
	p.says("Delete 1 message?")
	p.do(chromedp.Click(".narrow button"), chromedp.WaitVisible("h1 [role=status]"))
	p.open(base+"/page/job", "1 of 1 deleted")
	require.Zero(t, r.Count(kept))
	p.says("bob")
	require.Equal(t, exitOK, s.stop())
}
