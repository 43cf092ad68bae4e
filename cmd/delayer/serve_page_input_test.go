package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
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

// pageOf serves the page for a mailbox. Each of the people has a token that is their name.
func pageOf(t *testing.T, m *mailbox, people ...string) (base string) {
	t.Helper()
	list := "tokens:\n"
	for _, name := range people {
		sum := sha256.Sum256([]byte(name))
		list += "  - {name: " + name + ", sha256: " + hex.EncodeToString(sum[:]) + ", rights: [view, act]}\n"
	}
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte(list), 0o600))
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf(
		"url: %s\nprefix: %s\nbackend: fixedtiers\nfixedtiers: {tiers: [2s]}\nserve: {http: {listen: 127.0.0.1:0, page: true, tokens: %s}}\n", m.url, m.prefix, file)))
	t.Cleanup(func() { assert.Equal(t, exitOK, s.stop()) })
	return "http://" + rabbittest.Next(t, s.http)
}

// A person is logged in at the page, without a browser.
type person struct {
	testing.TB
	http.Client
	base, form string
}

var formToken = regexp.MustCompile(`name="form" value="([0-9a-f]+)"`)

func newPerson(t testing.TB, base, name string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	p := &person{TB: t, Client: http.Client{Jar: jar}, base: base}
	status, body := p.post("/page/login", url.Values{"token": {name}})
	require.Equal(t, http.StatusOK, status)
	found := formToken.FindStringSubmatch(body)
	require.NotNil(t, found, body)
	p.form = found[1]
	return p
}

func (p *person) ask(r *http.Request) (int, string) {
	answer, err := p.Do(r)
	require.NoError(p, err)
	defer answer.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(answer.Body)
	require.NoError(p, err)
	return answer.StatusCode, string(body)
}

func (p *person) get(path string) (int, string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, p.base+path, nil)
	require.NoError(p, err)
	return p.ask(r)
}

func (p *person) post(path string, form url.Values) (int, string) {
	p.Helper()
	form.Set("form", p.form)
	r, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.base+path, strings.NewReader(form.Encode()))
	require.NoError(p, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", p.base)
	return p.ask(r)
}

// ended waits for the last action, and returns what the page says of it.
func (p *person) ended() (body string) {
	p.Helper()
	require.Eventually(p, func() bool {
		_, body = p.get("/page/job")
		return !strings.Contains(body, `data-next="1000"`) // which a browser looks at again
	}, time.Minute, 20*time.Millisecond)
	return body
}

// TestServe_PageBadInput: messages that are hard to show, and people who get in each other's way.
func TestServe_PageBadInput(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	const longest, evil = 255, `'"/<script>alert(1)</script>`
	queue := m.prefix + evil
	queue += strings.Repeat("語", (longest-len(queue))/len("語"))
	in := consume(t, channel(t, m.url), queue)
	// Brokers from 4.0 on take no larger ones. With 100 MiB the race detector held up the whole process
	// so long that its heartbeats were missed, and the broker reset its connections.
	const size = 15 << 20
	deep := amqp091.Table{"bottom": evil}
	for range 10 {
		deep = amqp091.Table{evil: deep}
	}
	put := func(msg amqp091.Publishing) {
		msg.Headers = amqp091.Table{delayer.Header: message.Envelope{ID: msg.MessageId, Due: time.Now()}.String(), "deep": deep}
		m.Publish(m.queue()+".keep", queue, msg)
	}
	put(amqp091.Publishing{MessageId: "gone"})
	put(amqp091.Publishing{MessageId: "deep"})
	m.holds(2)
	base := pageOf(t, m, "alice", "bob")
	alice, bob := newPerson(t, base, "alice"), newPerson(t, base, "bob")

	listed := regexp.MustCompile(`name="id" value="([^"]+)"`)
	list := func(n int) (ids []string) {
		status, text := alice.get("/page/queue?queue=" + url.QueryEscape(m.queue()))
		require.Equal(t, http.StatusOK, status, text)
		assert.NotContains(t, text, "<script>alert")
		for _, found := range listed.FindAllStringSubmatch(text, -1) {
			ids = append(ids, found[1])
		}
		require.Len(t, ids, n)
		return ids
	}
	one := func(id string) string { return "/page/message?queue=" + url.QueryEscape(m.queue()) + "&id=" + id }

	ids := list(2)
	_, text := alice.get(one(ids[1]))
	assert.Equal(t, 11, strings.Count(text, `&#34;type&#34;: &#34;table&#34;`), text)
	assert.NotContains(t, text, "<script>alert")
	require.Equal(t, "gone", m.Take(m.queue()).MessageId)
	m.holds(1)
	status, text := alice.get(one(ids[0]))
	assert.Equal(t, http.StatusNotFound, status)
	assert.Contains(t, text, "That message is not in the queue any more.")
	alice.post("/page/act", url.Values{"queue": {m.queue()}, "action": {"delete"}, "id": {ids[0]}, "sure": {"yes"}})
	text = alice.ended()
	assert.Contains(t, text, "0 of 1 deleted")
	assert.Contains(t, text, "1 was not in the queue any more")

	put(amqp091.Publishing{MessageId: "large", Body: bytes.Repeat([]byte("0123456789abcdef"), size/16)})
	m.holds(2)
	ids = list(2)
	_, text = alice.get(one(ids[1]))
	assert.Contains(t, text, fmt.Sprintf("%d.0 MiB, as text; the first 64 KiB are shown", size>>20))
	assert.Less(t, len(text), 200<<10)
	_, text = alice.get(one(ids[1]) + "&as=file")
	assert.Len(t, text, size)

	var both sync.WaitGroup
	for _, p := range []*person{alice, bob} {
		both.Go(func() {
			status, text := p.post("/page/act", url.Values{"queue": {m.queue()}, "action": {"retry"}, "which": {"all"}, "count": {"2"}, "sure": {"yes"}})
			if status != http.StatusOK { // the other one was faster
				assert.Equal(p, http.StatusConflict, status)
				assert.Contains(p, text, "Something is under way already. Nothing was done.")
			}
		})
	}
	both.Wait()
	alice.ended()
	m.holds(0)
	m.Publish("", queue, amqp091.Publishing{MessageId: "sentinel"})
	for _, want := range []string{"deep", "large", "sentinel"} {
		assert.Equal(t, want, rabbittest.Next(t, in).MessageId, "each comes once")
	}
}

// TestServe_PageDefaults: with the prefix that holds if none is given, what is unroutable can be
// looked at.
func TestServe_PageDefaults(t *testing.T) {
	t.Parallel()
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf(
		"url: %s\nbackend: fixedtiers\nfixedtiers: {tiers: [2s]}\nserve: {http: {listen: 127.0.0.1:0, page: true}}\n", vhost(t, rabbittest.Ours(t)))))
	p := &person{TB: t, base: "http://" + rabbittest.Next(t, s.http)}
	status, text := p.get("/page/queue?queue=delayer.unroutable")
	assert.Equal(t, http.StatusOK, status, text)
	assert.Contains(t, text, "0 messages")
	require.Equal(t, exitOK, s.stop())
}

// TestServe_PageMany: of 500 messages the selected are deleted, and those that match a filter, and
// no others. The rest is as it was.
func TestServe_PageMany(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	m := newMailbox(t)
	const n = 500
	all := make([]amqp091.Publishing, n)
	for i := range all {
		exchange := []string{"amq.topic", "amq.fanout"}[i%2]
		all[i] = amqp091.Publishing{MessageId: strconv.Itoa(i), Headers: amqp091.Table{
			delayer.Header: message.Envelope{ID: strconv.Itoa(i), Due: time.Now(), Exchange: exchange}.String(),
		}}
	}
	m.Publish(m.queue()+".keep", "key", all...)
	m.holds(n)
	base := pageOf(t, m, "alice")
	list := base + "/page/queue?queue=" + m.queue()
	p := tab{t, browser}
	p.do(chromedp.Navigate(base), chromedp.SendKeys("#token", "alice"), chromedp.Click("main button"), chromedp.WaitVisible(".facts"))

	p.eventually(list, "500 messages, the oldest first; 1 to 200 shown")
	p.do(chromedp.Click("#every"), chromedp.Click("tbody tr:nth-child(1) input"), chromedp.Click("tbody tr:nth-child(200) input"))
	p.do(chromedp.Click("button[value=delete]"), chromedp.WaitVisible(".narrow button"))
	assert.Contains(t, p.text(), "Delete 198 messages?")
	p.do(chromedp.Click(".narrow button"), chromedp.WaitVisible("h1 [role=status]"))
	p.eventually(base+"/page/job", "198 of 198 deleted")

	p.eventually(list, "302 messages")
	p.do(chromedp.SendKeys("#exchange", "*.topic"), chromedp.Click(".filter button"), chromedp.WaitVisible("main [role=status]"))
	assert.Contains(t, p.text(), "151 of 302 match: exchange *.topic.")
	p.do(chromedp.Click("input[value=all]"), chromedp.Click("button[value=delete]"), chromedp.WaitVisible(".narrow button"))
	assert.Contains(t, p.text(), "Delete 151 messages?")
	p.do(chromedp.Click(".narrow button"), chromedp.WaitVisible("h1 [role=status]"))
	p.eventually(base+"/page/job", "151 of 151 deleted")

	m.holds(151)
	in := m.Consume(m.queue())
	for i := range n {
		if i%2 == 1 && (i == 199 || i >= 200) {
			require.Equal(t, strconv.Itoa(i), rabbittest.Next(t, in).MessageId)
		}
	}
}
