package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// quickLadder configures a ladder for delays of a second or two, in steps of 20 ms.
const quickLadder = "binaryladder: {tick: 20ms, steps: [20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1280ms]}\n"

// declared waits until serve has declared an exchange.
func declared(t *testing.T, url, exchange string) {
	t.Helper()
	conn, err := amqp091.Dial(url)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the test's end
	require.Eventually(t, func() bool {
		ch, err := conn.Channel() // the broker closes it where there is no such exchange
		return err == nil && ch.ExchangeDeclarePassive(exchange, "topic", true, false, false, false, nil) == nil
	}, time.Minute, 20*time.Millisecond, exchange)
}

// TestServe_Permissions: those that docs/operating.md gives serve and a client are enough, and the
// client cannot bind to the entry.
func TestServe_Permissions(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	at := vhost(t, b)
	documented := func(role string) string { return rabbittest.Documented(t, b, at, "../..", role) }
	s := serve(t, "serve", "--config", configFile(t, "url: "+documented("serve")+`
backend: controller
serve:
  exchanges: [{name: later, to: orders}]
  amqp: {listen: 127.0.0.1:0}
`))
	declared(t, at, "later")
	ch := channel(t, throughProxy(t, s, documented("client")))
	require.NoError(t, declareDelayed(ch, "shop.delayed", "topic"))
	in := consume(t, ch, "shop.queue")
	require.NoError(t, ch.Confirm(false))
	for _, c := range []struct{ publishTo, arrivesFrom string }{{"later", "orders"}, {"shop.delayed", "shop.delayed"}} {
		require.NoError(t, ch.QueueBind("shop.queue", "key", c.arrivesFrom, false, nil))
		send(t, ch, c.publishTo, "delayed", int32(300))
		require.Equal(t, c.arrivesFrom, rabbittest.Next(t, in).Exchange)
	}
	require.ErrorContains(t, ch.QueueBind("shop.queue", "key", "later", false, nil), "ACCESS_REFUSED")
	require.Equal(t, exitOK, s.stop())
	require.NotContains(t, s.logged(), "level=WARN")
}

// TestServe_Exchanges: who publishes with a header, and knows nothing else, is delayed.
func TestServe_Exchanges(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	url, prefix, management := vhost(t, b), rabbittest.Prefix(t), ""
	if b.Management() != "" {
		management = "management: " + b.Management() + "\n"
	}
	ch := channel(t, url)
	require.NoError(t, ch.ExchangeDeclare("topic", "topic", true, false, false, false, nil))
	consume(t, ch, "early")
	require.NoError(t, ch.QueueBind("early", "key", "topic", false, nil))
	const around = `binding from exchange "topic" to queue "early" with key "key"`
	config := configFile(t, fmt.Sprintf(`
url: %s
prefix: %s
`+management+quickLadder+`serve:
  exchanges:
    - {name: topic, to: topic.delivery}
    - {name: direct, type: direct, to: direct.delivery}
    - {name: fanout, type: fanout, to: fanout.delivery}
    - {name: headers, type: headers, to: headers.delivery}
    - {name: any, allow: ["topic.*", any]}
`, url, prefix))
	s := serve(t, "serve", "--config", config)
	for _, exchange := range []string{"topic", "direct", "fanout", "headers", "any"} {
		declared(t, url, exchange)
	}
	require.NoError(t, ch.Confirm(false))
	_, verified, _ := command(t.Context(), t, "topology", "verify", "--config", config)
	status, shown, stderr := command(t.Context(), t, "status", "--config", config, "--fail-if", "bindings>0")
	require.Equal(t, exitFailed, status)
	if management == "" {
		assert.Contains(t, stderr, "bindings is not known")
	} else {
		assert.Contains(t, verified, around)
		assert.Contains(t, strings.Join(strings.Fields(shown), " "), around)
		assert.Contains(t, stderr, "bindings is 1")
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		if management == "" {
			assert.Contains(t, s.logged(), "it is not known whether bindings go around")
		} else {
			assert.Contains(t, s.logged(), strings.ReplaceAll(around, `"`, `\"`))
		}
	}, time.Minute, 10*time.Millisecond)

	publish := func(exchange, id string, headers amqp091.Table) {
		t.Helper()
		const mandatory, immediate = true, false
		confirm, err := ch.PublishWithDeferredConfirm(exchange, "key", mandatory, immediate, amqp091.Publishing{MessageId: id, Headers: headers})
		require.NoError(t, err)
		require.True(t, confirm.Wait())
	}
	in := map[string]<-chan amqp091.Delivery{}
	for _, exchange := range []string{"topic", "direct", "fanout", "headers"} {
		in[exchange] = consume(t, ch, exchange+"-queue")
		require.NoError(t, ch.QueueBind(exchange+"-queue", "key", exchange+".delivery", false, nil))
	}
	next := func(exchange string) amqp091.Delivery {
		t.Helper()
		return rabbittest.Next(t, in[exchange])
	}
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	began := time.Now()
	for exchange := range in {
		publish(exchange, "later", amqp091.Table{"x-delay": int32(1500), "mine": "kept", "traceparent": trace})
		publish(exchange, "at once", nil)
	}
	for exchange := range in {
		require.Equal(t, "at once", next(exchange).MessageId)
		d := next(exchange)
		require.Equal(t, "later", d.MessageId)
		assert.GreaterOrEqual(t, time.Since(began), 1500*time.Millisecond, exchange)
		assert.Equal(t, "kept", d.Headers["mine"])
		assert.Equal(t, trace, d.Headers["traceparent"])
		assert.NotContains(t, d.Headers, "x-delay")
		assert.Equal(t, "key", d.RoutingKey)
	}

	for _, delay := range []any{int32(0), int32(-5), nil} {
		publish("topic", "now", amqp091.Table{"x-delay": delay})
		assert.NotContains(t, next("topic").Headers, "x-delay", "%v", delay)
	}

	require.NoError(t, ch.ExchangeDeclare("topic.empty", "topic", true, false, false, false, nil))
	for range 3 {
		publish("any", "dropped", amqp091.Table{"x-delayer-exchange": "topic.empty"})
		publish("any", "bound", amqp091.Table{"x-delayer-exchange": "topic.delivery"})
		require.Equal(t, "bound", next("topic").MessageId)
	}
	s.eventually(t, `delayer_entry_seconds_count{action="dropped",exchange="any"} 3`)
	s.eventually(t, `delayer_entry_seconds_count{action="at_once",exchange="any"} 3`)
	assert.Contains(t, s.logged(), `"to":"topic.empty"`)

	due := time.Now().Add(1500 * time.Millisecond)
	publish("any", "due", amqp091.Table{"x-delayer-exchange": "topic.delivery", "x-delayer-due": due.UnixMilli()})
	publish("any", "text", amqp091.Table{"x-delayer-exchange": "topic.delivery", "x-delayer-delay": "300ms"})
	require.Equal(t, "text", next("topic").MessageId)
	d := next("topic")
	require.Equal(t, "due", d.MessageId)
	assert.False(t, time.Now().Before(due.Truncate(time.Millisecond)), "early")
	assert.NotContains(t, d.Headers, "x-delayer-due")
	assert.NotContains(t, d.Headers, "x-delayer-exchange")

	confirm, err := ch.PublishWithDeferredConfirm("topic", "key", true, false, amqp091.Publishing{
		MessageId: "expires", Expiration: "3600000", Headers: amqp091.Table{"x-delay": int32(300)},
	})
	require.NoError(t, err)
	require.True(t, confirm.Wait())
	d = next("topic")
	require.Equal(t, "expires", d.MessageId, "it passes twice")
	require.Equal(t, "3600000", d.Expiration)

	publish("any", "nowhere", nil)
	s.eventually(t, `delayer_entry_seconds_count{action="parked",exchange="any"} 1`)
	s.eventually(t, `delayer_entry_messages{exchange="fanout",state="parked"} 0`) // asked for once: not the newest
	elsewhere := configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+
		"serve: {exchanges: [{name: topic, to: elsewhere}]}\n", url, prefix))
	status, _, stderr = command(t.Context(), t, "serve", "--config", elsewhere)
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, "serve.entry.topic\": conflicts with what the broker holds")
	circle := configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+
		"serve: {exchanges: [{name: fanout.delivery, to: fanout}]}\n", url, prefix))
	status, _, stderr = command(t.Context(), t, "serve", "--config", circle)
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, `to: "fanout" is an entry itself`)
	publish("fanout", "still served", nil)
	require.Equal(t, "still served", next("fanout").MessageId)
	require.Equal(t, exitOK, s.stop())
}

// TestServe_Deaths: x-death arrives, of a queue that dead-letters to an entry and of a consumer that
// publishes there what it got. RabbitMQ 3 counts on; for RabbitMQ 4 the log warns.
func TestServe_Deaths(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	url, prefix := vhost(t, b), rabbittest.Prefix(t)
	config := configFile(t, "url: "+url+"\nprefix: "+prefix+"\n"+quickLadder+"serve: {exchanges: [{name: orders, to: orders.delivery}]}\n")
	s := serve(t, "serve", "--config", config)
	declared(t, url, "orders")
	ch := channel(t, url)
	_, err := ch.QueueDeclare("queue", true, false, false, false, amqp091.Table{"x-dead-letter-exchange": "orders"})
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind("queue", "#", "orders.delivery", false, nil))
	in, err := ch.Consume("queue", "", false, false, false, false, nil)
	require.NoError(t, err)
	counts := []any{}
	require.NoError(t, ch.Publish("orders", "key", false, false, amqp091.Publishing{Headers: amqp091.Table{"x-delay": int32(100)}}))
	for range 6 {
		d := rabbittest.Next(t, in)
		deaths, _ := d.Headers["x-death"].([]any)
		for _, entry := range deaths {
			if death, _ := entry.(amqp091.Table); death["queue"] == "queue" {
				counts = append(counts, death["count"])
			}
		}
		if len(counts) < 3 {
			require.NoError(t, d.Reject(false))
			continue
		}
		d.Headers["x-delay"] = int32(100)
		require.NoError(t, ch.Publish("orders", "key", false, false, amqp091.Publishing{Headers: d.Headers}))
		require.NoError(t, d.Ack(false))
	}
	if strings.HasPrefix(b.Version(), "3.") {
		require.Equal(t, []any{int64(1), int64(2), int64(3), int64(3), int64(3)}, counts)
	} else {
		require.Equal(t, []any{int64(1), int64(1), int64(1), int64(1), int64(1)}, counts)
		require.Contains(t, s.logged(), "begins x-death anew")
	}
	require.Equal(t, exitOK, s.stop())
}

func TestServe_Configuration(t *testing.T) {
	for text, want := range map[string]string{
		"serve: 5":                                                 "open serve: invalid configuration: line 2 is not a mapping",
		"serve: {exchange: []}":                                    "open serve.exchange: invalid configuration: line 2: unknown key (known: exchanges, prefetch, recurring, http, amqp)",
		"serve: {prefetch: 0}":                                     "0 is not between 1 and 65535",
		"serve: {exchanges: []}":                                   "there is nothing to serve",
		"serve: {exchanges: {name: a, to: b}}":                     "open serve.exchanges: invalid configuration: line 2 is one entry, not a list of them (write - name: …",
		"serve: {exchanges: [{name: a}]}":                          "write to: the exchange that consumers bind to; or allow",
		"serve: {exchanges: [{name: a, to: b, type: x}]}":          `type: "x" is none of direct, topic, fanout, headers`,
		"serve: {exchanges: [{name: a, to: a}]}":                   "in a circle",
		"serve: {exchanges: [{name: a, to: b}, {name: a, to: c}]}": `"a" is there twice`,
		"serve: {exchanges: [{name: a, to: b}, {name: b, to: c}]}": "in a circle",
		"serve: {exchanges: [{name: a, allow: ['']}]}":             "the default exchange would reach every queue",
		"serve: {exchanges: [{name: amq.topic, to: b}]}":           "belong to the broker",
		"serve: {exchanges: [{to: b}]}":                            "name is empty",
		"serve: {http: {}}":                                        "there is nothing to serve",
		"serve: {http: {listen: ':80'}}":                           "open serve.http.tokens: invalid configuration: there is none, and everybody who reaches :80 could publish",
		"serve: {http: {listen: 'localhost:80', token: x}}":        "open serve.http.token: invalid configuration: line 2: unknown key (known: listen, tokens",
	} {
		status, _, stderr := command(t.Context(), t, "serve", "--config", configFile(t, "url: amqp://guest:hunter2@127.0.0.1:1/\n"+text+"\nbackend: binaryladder\n"))
		assert.Equal(t, exitFailed, status, text)
		assert.Contains(t, stderr, want, text)
	}
}

// TestServe_BadInput: what cannot be passed on is parked with a reason, and the messages of others
// pass.
func TestServe_BadInput(t *testing.T) {
	t.Parallel()
	b, prefix := rabbittest.Broker(t), rabbittest.Prefix(t)
	url := vhost(t, b)
	where, err := amqp091.ParseURI(url)
	require.NoError(t, err)
	_, err = b.Ctl(t.Context(), "set_permissions", "-p", where.Vhost, where.Username, ".*", `^(?!to\.secret$)`, ".*")
	require.NoError(t, err)
	config := configFile(t, fmt.Sprintf("url: %s\nprefix: %s\nbackend: fixedtiers\nfixedtiers: {tiers: [100ms], prefix: to.tiers}\n"+
		"serve: {prefetch: 3, exchanges: [{name: to.entry, allow: ['to.*']}, {name: to.other, to: to.there}]}\n", url, prefix))
	s := serve(t, "serve", "--config", config)
	declared(t, url, "to.there")
	ch := channel(t, url)
	in := consume(t, ch, "queue")
	require.NoError(t, ch.QueueBind("queue", "#", "to.there", false, nil))
	require.NoError(t, ch.Confirm(false))
	require.NoError(t, ch.ExchangeDeclare("to.internal", "fanout", false, true, true, false, nil))
	require.NoError(t, ch.ExchangeDeclare("to.secret", "fanout", false, true, false, false, nil))
	require.NoError(t, ch.ExchangeDeclare("to.foreign", "topic", true, false, false, false, nil))
	_, err = ch.QueueDeclare(prefix+".serve.queue.to.foreign", true, false, false, false, nil) // as another process has it
	require.NoError(t, err)

	publish := func(id string, headers amqp091.Table) {
		t.Helper()
		if _, is := headers["x-delayer-exchange"]; !is {
			headers["x-delayer-exchange"] = "to.there"
		}
		confirm, err := ch.PublishWithDeferredConfirm("to.entry", "key", true, false, amqp091.Publishing{MessageId: id, Headers: headers})
		require.NoError(t, err)
		require.True(t, confirm.Wait(), id)
	}
	// Which values of the headers are taken is tested in package entry; these go through the broker.
	deep := any("bottom")
	for range 40 {
		deep = []any{deep}
	}
	const victim = "queue"
	const asItIs = "no x-delayer-retry header" // the broker moved it; the reason is in the log
	parked := map[string]string{}
	for id, m := range map[string]struct {
		headers amqp091.Table
		reason  string // a part of it
	}{
		"words":         {amqp091.Table{"x-delay": "soon"}, `"soon"`},
		"gone":          {amqp091.Table{"x-delay": int32(100), "x-delayer-exchange": "to.gone"}, "to.gone"},
		"gone at once":  {amqp091.Table{"x-delayer-exchange": "to.gone"}, "to.gone"},
		"deep":          {amqp091.Table{"x-delay": int32(100), "deep": deep}, asItIs},
		"wide":          {amqp091.Table{"wide": make([]any, 9000)}, asItIs},
		"internal":      {amqp091.Table{"x-delayer-exchange": "to.internal"}, "choose one that is not internal"},
		"secret":        {amqp091.Table{"x-delay": int32(100), "x-delayer-exchange": "to.secret"}, "to.secret"},
		"secret, now":   {amqp091.Table{"x-delayer-exchange": "to.secret"}, "access"},
		"long":          {amqp091.Table{"x-delayer-exchange": "to." + strings.Repeat("x", 300)}, "a name of 303 bytes"},
		"foreign":       {amqp091.Table{"x-delayer-exchange": "to.foreign"}, "is an entry itself"},
		"foreign, late": {amqp091.Table{"x-delay": int32(100), "x-delayer-exchange": "to.foreign"}, "is an entry itself"},
		"tiers":         {amqp091.Table{"x-delayer-exchange": "to.tiers.enter"}, "not allowed"},
		"native":        {amqp091.Table{"x-opt-delivery-time": time.Now().Add(time.Hour)}, "by which RabbitMQ 4.4 delays"},
		"forged":        {amqp091.Table{"x-delay": "soon", "x-delayer-retry": amqp091.Table{"queue": victim}, "text": strings.Repeat("x", 130_650)}, ""},
		"full":          {amqp091.Table{"x-delay": "soon", "text": strings.Repeat("x", 130_700)}, asItIs},
	} {
		parked[id] = m.reason
		publish(id, m.headers)
	}
	publish("last", amqp091.Table{})
	require.Equal(t, "last", rabbittest.Next(t, in).MessageId)
	queue := prefix + ".serve.parked.to.entry"
	holds(t, ch, queue, len(parked))
	status, list, errs := command(t.Context(), t, "messages", "list", queue, "--config", config, "--output", "json")
	require.Equal(t, exitOK, status, errs)
	var found struct {
		Messages []struct {
			ID  string `json:"message_id"`
			Why string `json:"why"`
		} `json:"messages"`
	}
	require.NoError(t, json.Unmarshal([]byte(list), &found))
	require.Len(t, found.Messages, len(parked))
	for _, m := range found.Messages {
		assert.Contains(t, m.Why, parked[m.ID], m.ID)
	}

	// What a retry can send is parked for the same reason once more. What nobody can understand stays,
	// and so does what the broker moved as it is.
	status, list, errs = command(t.Context(), t, "messages", "list", queue, "--config", config, "--id", "words")
	require.Equal(t, exitOK, status, errs)
	assert.Equal(t, 1, strings.Count(list, `"soon"`), "the reason is there once: %s", list)
	status, list, errs = command(t.Context(), t, "messages", "retry", queue, "--config", config)
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, errs, "6 messages stay: fix what is named above")
	assert.Regexp(t, `1 +stay +exchange to.entry: it would be parked again: header x-delay is "soon".*Retry with another delay`, list)
	assert.Regexp(t, `[0-9] +sent +exchange to.entry\n`, list)
	assert.Regexp(t, `1 +stay +.*it says that it failed in queue "queue", and this is not "queue.parked": a publisher may have written that`, list)
	assert.Regexp(t, `3 +stay +.*it has no header x-delayer-retry, so it is not known where it was read: export and purge it`, list)
	publish("after the retry", amqp091.Table{})
	require.Equal(t, "after the retry", rabbittest.Next(t, in).MessageId)
	holds(t, ch, queue, len(parked))

	// Another delay than nobody's.
	status, _, errs = command(t.Context(), t, "messages", "retry", queue, "--config", config, "--id", "words", "--delay", "0")
	require.Equal(t, exitOK, status, errs)
	require.Equal(t, "words", rabbittest.Next(t, in).MessageId)
	delete(parked, "words")
	holds(t, ch, queue, len(parked))
	require.Equal(t, exitOK, s.stop())
}

// TestServe_NotReady: /readyz says ok once every exchange is served, and not before. Where the
// broker has no room for all, serve does not begin.
func TestServe_NotReady(t *testing.T) {
	t.Parallel()
	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	var exchanges []string // each needs two channels
	for i := range 10 {
		exchanges = append(exchanges, fmt.Sprintf("{name: %s.%d, to: %[1]s.to}", prefix, i))
	}
	file := func(channels int) string {
		return configFile(t, fmt.Sprintf("url: %s?channel_max=%d\nprefix: %s\n"+quickLadder+
			"serve: {exchanges: [%s]}\n", url, channels, prefix, strings.Join(exchanges, ", ")))
	}
	status, _, errs := command(t.Context(), t, "serve", "--config", file(19))
	require.Equal(t, exitFailed, status)
	require.Contains(t, errs, "it needs 20 channels, and may have 19: channel_max is too low (set channel_max in rabbitmq.conf")
	s := serve(t, "serve", "--config", file(20))
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		status, body := s.get(t, "/readyz")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, "ok")
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, exitOK, s.stop())
}
