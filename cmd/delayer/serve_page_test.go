package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lab/chromium"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// sumOfSecret is the SHA-256 of the token "secret".
const sumOfSecret = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

// sumOfBob is the SHA-256 of the token "bob".
const sumOfBob = "81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9"

// A tab is one of a browser.
type tab struct {
	*testing.T
	ctx context.Context
}

func (p tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	require.NoError(p, chromedp.Do(p.ctx, steps...))
}

// text is what is to be read.
func (p tab) text() string {
	p.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Text("body"))
	require.NoError(p, err)
	return text
}

// eventually opens an address again and again until the page says so.
func (p tab) eventually(address string, want ...string) {
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

// login logs in on the page of an address.
func (p tab) login(base, token string) {
	p.Helper()
	p.do(chromedp.Navigate(base), chromedp.SendKeys("#token", token), chromedp.Click("main button"), chromedp.WaitVisible(".facts"))
}

// TestServe_Page: in a browser somebody logs in, sees what waits in the picture and in its queue,
// cancels and postpones by ticket, and sees the last figures while the broker is stopped, and new
// ones once it runs again.
func TestServe_Page(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	b, prefix := rabbittest.Own(t, rabbit.Options{}), rabbittest.Prefix(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("tokens: [{name: alice, sha256: "+sumOfSecret+", rights: [view, publish], queues: ['*']}, {name: bob, sha256: "+sumOfBob+", rights: [view, act]}]"), 0o600))
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf(`
url: %s
prefix: %s
backend: controller
serve:
  http: {listen: 127.0.0.1:0, page: true, tokens: %s}
`, b.URL(), prefix, tokens)))
	base := "http://" + rabbittest.Next(t, s.http)
	queue := prefix + "-queue"
	in := consume(t, channel(t, b.URL()), queue)

	p := tab{t, browser}
	p.do(chromedp.Navigate(base), chromedp.SendKeys("#token", "wrong"), chromedp.Click("button"), chromedp.WaitVisible("[role=alert]"))
	assert.Contains(t, p.text(), "There is no such token.")
	p.do(chromedp.SendKeys("#token", "secret"), chromedp.Click("button"), chromedp.WaitVisible(".facts"))
	assert.Contains(t, p.text(), "alice, read only")
	assert.Contains(t, p.text(), "1 controller at work")

	publish := func(id string, delay time.Duration) (ticket string) {
		t.Helper()
		status, answer := httpClient{t, base}.askAs("secret", http.MethodPost, "/v1/messages",
			fmt.Sprintf(`{"key": %q, "delay": %q, "properties": {"message_id": %q}}`, queue, delay, id))
		require.Equal(t, http.StatusCreated, status, answer)
		return answer["ticket"].(string)
	}
	later := publish("later", 10*time.Minute)
	p.do(chromedp.WaitVisible(".panel rect")) // the script has replaced the picture
	assert.Contains(t, p.text(), "1 next hour, by minute")

	p.eventually(base+"/page/waiting", "1 message in 1 of 128 queues", "controller.wait.1m.")
	p.do(chromedp.SendKeys("#ticket", later), chromedp.Click(".find button"), chromedp.WaitVisible(".whole"))
	assert.Contains(t, p.text(), "You may look, but not cancel or postpone")
	p.do(chromedp.Click(".who button"), chromedp.WaitVisible("#token"))
	p.login(base, "bob")
	p.do(chromedp.Navigate(base+"/page/ticket?ticket=nothing"), chromedp.WaitVisible("h1"))
	assert.Contains(t, p.text(), "A message that waits cannot be found by its id")
	p.do(chromedp.Navigate(base+"/page/ticket?ticket=d2.nothing"), chromedp.WaitVisible("h1"))
	assert.Contains(t, p.text(), "It is not a ticket, or damaged.")
	p.do(chromedp.Navigate(base+"/page/ticket?ticket="+later), chromedp.SendKeys("#by", "1h"), chromedp.Click("button[value=postpone]"),
		chromedp.WaitVisible(".narrow button"), chromedp.Click(".narrow button"), chromedp.WaitVisible("h1 [role=status]"))
	assert.Contains(t, p.text(), "1 message postponed")
	p.do(chromedp.Click("pre + p a"), chromedp.WaitVisible(".whole"))
	assert.Regexp(t, `in 1h \d+m`, p.text())
	cancelled := cancelOne(p, base, publish)

	for id := ""; id != "last"; {
		id = rabbittest.Next(t, in).MessageId
		require.NotEqual(t, cancelled, id)
	}
	require.Contains(t, s.logged(), `"who":"bob","action":"cancel"`)

	p.eventually(base, "next hour, by minute")
	require.NoError(t, b.Stop(t.Context()))
	p.do(chromedp.WaitVisible("#live.old .alarm")) // the script has looked again
	assert.Contains(t, p.text(), "The broker does not answer. These are the figures of ")
	assert.Contains(t, p.text(), "next hour, by minute")
	require.NoError(t, b.Run(t.Context()))
	p.do(chromedp.WaitVisible("#live:not(.old) .facts"))
	assert.Contains(t, p.text(), "bob", "the session is as it was")
	_, err := chromedp.Call(browser, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	p.eventually(base, "next hour, by minute", "Times are in UTC.")
	p.do(chromedp.Click(".who button"), chromedp.WaitVisible("#token"))
	require.Equal(t, exitOK, s.stop())
}

// cancelOne cancels a message with clicks, and returns its id. The message "last" is due after it.
func cancelOne(p tab, base string, publish func(id string, delay time.Duration) (ticket string)) string {
	p.Helper()
	for delay := 8 * time.Second; ; delay *= 2 { // the machine may be slow
		id := fmt.Sprintf("cancelled, of %s", delay)
		ticket := publish(id, delay)
		p.do(chromedp.Navigate(base+"/page/ticket?ticket="+ticket), chromedp.WaitVisible(".whole"))
		text := p.text()
		if strings.Contains(text, "Cancel…") {
			p.do(chromedp.Click("button[value=cancel]"), chromedp.WaitVisible(".narrow button"))
			assert.Contains(p, p.text(), "Cancel 1 message?")
			p.do(chromedp.Click(".narrow button"), chromedp.WaitVisible("h1 [role=status]"))
			text = p.text()
		}
		if strings.Contains(text, "1 message cancelled") {
			publish("last", delay+time.Second)
			return id
		}
		require.Regexp(p, "too late|not any more|Perhaps cancelled", text)
	}
}

// TestServe_PageUndelivered: what was not delivered is seen, sent again and deleted with clicks.
func TestServe_PageUndelivered(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	m := newMailbox(t)
	queue := m.prefix + "-'\"/ü<script>alert(1)</script>"
	in := consume(t, channel(t, m.url), queue)
	for _, id := range []string{"one", "two", "three"} {
		m.put(id, "", queue, time.Now(), amqp091.Publishing{MessageId: id, Body: []byte("<script>" + id)})
	}
	m.put("four", "", queue+"-gone", time.Now(), amqp091.Publishing{MessageId: "four"})
	m.holds(4)
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("tokens: [{name: alice, sha256: "+sumOfSecret+", rights: [view, act]}]"), 0o600))
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf(
		"url: %s\nprefix: %s\nbackend: fixedtiers\nfixedtiers: {tiers: [2s]}\nserve: {http: {listen: 127.0.0.1:0, page: true, tokens: %s}}\n", m.url, m.prefix, tokens)))
	base := "http://" + rabbittest.Next(t, s.http)
	list := base + "/page/queue?queue=" + m.queue()

	p := tab{t, browser}
	p.do(chromedp.Navigate(base), chromedp.SendKeys("#token", "secret"), chromedp.Click("main button"), chromedp.WaitVisible(".facts"))
	p.eventually(list, "4 messages, the oldest first", "one", "four", "queue was gone, is there now: retry", "no such queue")
	p.do(chromedp.Click("tbody tr:nth-child(2) a"), chromedp.WaitVisible("pre"))
	assert.Contains(t, p.text(), "<script>two")
	p.do(chromedp.Click("button[value=retry]"), chromedp.WaitVisible(".narrow button"))
	assert.Contains(t, p.text(), "Retry 1 message?")
	p.do(chromedp.Click(".narrow button"), chromedp.WaitVisible("h1 [role=status]"))
	require.Equal(t, "two", rabbittest.Next(t, in).MessageId)
	p.eventually(base+"/page/job", "1 of 1 sent")
	p.eventually(list, "3 messages, the oldest first")
	p.do(chromedp.Click("tbody tr:nth-child(1) input"), chromedp.Click("button[value=delete]"), chromedp.WaitVisible(".narrow button"))
	assert.Contains(t, p.text(), "Delete 1 message?")
	p.do(chromedp.Click(".narrow button"), chromedp.WaitVisible("h1 [role=status]"))
	p.eventually(base+"/page/job", "1 of 1 deleted")
	p.eventually(list, "2 messages, the oldest first")
	p.do(chromedp.Click("input[value=all]"), chromedp.Click("button[value=retry]"), chromedp.WaitVisible(".narrow button"), chromedp.Click(".narrow button"))
	require.Equal(t, "three", rabbittest.Next(t, in).MessageId)
	p.eventually(base+"/page/job", "1 of 2 sent", "no such queue")
	m.holds(1)
	require.Equal(t, exitOK, s.stop())
}

// TestServe_PageTopology: what was declared, what differs from the plan, what a policy would do,
// who retries and how far a migration is, in a browser.
func TestServe_PageTopology(t *testing.T) {
	t.Parallel()
	b, prefix := rabbittest.Ours(t), rabbittest.Prefix(t)
	browser := chromium.Start(t)
	address := vhost(t, b)
	vhostName := address[strings.LastIndex(address, "/")+1:]
	config := configFile(t, fmt.Sprintf(`
url: %s
management: %s
prefix: %s
declare: false
backend: binaryladder
binaryladder: {steps: [1s, 2s, 4s]}
serve:
  http: {listen: 127.0.0.1:0, page: true}
`, address, b.Management(), prefix))
	code, _, stderr := command(t.Context(), t, "topology", "apply", "--config", config)
	require.Equal(t, exitOK, code, stderr)
	ch := channel(t, address)
	queue := "work '\"/遅延<script>alert(1)</script>"
	for _, name := range []string{queue, queue + ".parked"} {
		_, err := ch.QueueDeclare(name, true, false, false, false, nil)
		require.NoError(t, err)
	}
	_, err := ch.Consume(queue, "", true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, ch.Confirm(false))
	sent, err := ch.PublishWithDeferredConfirm("", queue+".parked", false, false, amqp091.Publishing{Body: []byte("given up")})
	require.NoError(t, err)
	require.True(t, sent.Wait())
	exchange := "orders <script>'"
	begin(t, address, prefix, exchange)
	s := serve(t, "serve", "--config", config)
	base := "http://" + rabbittest.Next(t, s.http)

	_, err = ch.QueueDelete(prefix+".ladder.wait.4s", false, false, false)
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(queue, "mine", prefix+".ladder.step.1s", false, nil))
	_, err = b.Ctl(t.Context(), "set_policy", "-p", vhostName, "early", `^`+prefix+`\.ladder\.wait\.2s`, `{"message-ttl":5}`)
	require.NoError(t, err)

	p := tab{t, browser}
	p.eventually(base+"/page/migration", exchange, "prepared", `switch --config delayer.yaml --exchange='orders <script>'\'''`)
	p.eventually(base+"/page/retries", "work", "遅延", "given up")
	p.do(chromedp.Click("tbody a"), chromedp.WaitVisible("#attempts"))
	assert.Contains(t, p.text(), "1 message given up.")
	assert.Contains(t, p.text(), "not parked by package retry")
	p.eventually(base+"/page/topology", `queue "`+prefix+`.ladder.wait.4s"`, "it does not exist", "made by others",
		"which would make messages early", "3 queues, quorum, 1s to 4s", "1 of 3 harmed by a policy, 1 of 3 missing")
	p.do(chromedp.WaitVisible(".drawing .wrong rect"), chromedp.WaitVisible(".drawing .dead-letter"))
	require.Equal(t, exitOK, s.stop())
}

// begin begins a migration as delayer migrate prepare does: it writes the record.
func begin(t *testing.T, address, prefix, exchange string) {
	t.Helper()
	settings, err := engine.Resolve(delayer.Options{URL: address, Prefix: prefix}, "")
	require.NoError(t, err)
	conn, err := broker.Dial(t.Context(), settings.BrokerOptions("test"))
	require.NoError(t, err)
	defer conn.Close()
	journal, err := record.Open(t.Context(), conn, prefix, exchange)
	require.NoError(t, err)
	r := record.Record{Former: inventory.Definition{Exchange: inventory.Exchange{Name: exchange, Type: "fanout"}}}
	require.NoError(t, journal.Save(t.Context(), r.To(record.Prepared, time.Now())))
	require.NoError(t, journal.Close())
}
