package main

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// A proxyRig is a virtual host, and proxies in front of it.
type proxyRig struct {
	*testing.T
	broker      *rabbit.Broker
	url, config string
	prefix      string
}

func newProxyRig(t *testing.T) proxyRig {
	t.Helper()
	b := rabbittest.Broker(t)
	url := vhost(t, b)
	prefix, _, _ := strings.Cut(rabbittest.Prefix(t), "-Test") // the broker cuts its errors, with names of queues, at 255 bytes
	config := configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+`serve:
  exchanges: [{name: served, to: served.delivery}]
  amqp: {listen: 127.0.0.1:0}
`, url, prefix))
	return proxyRig{t, b, url, config, prefix}
}

// start starts a proxy, and returns the address for clients.
func (r proxyRig) start() (runningService, string) {
	r.Helper()
	s := serve(r.T, "serve", "--config", r.config)
	return s, throughProxy(r.T, s, r.url)
}

// throughProxy is the address of a broker for clients of a proxy.
func throughProxy(t testing.TB, s runningService, url string) string {
	t.Helper()
	at := strings.Index(url, "@") + 1
	end := at + strings.Index(url[at:], "/")
	return url[:at] + rabbittest.Next(t, s.amqp) + url[end:]
}

func declareDelayed(ch *amqp091.Channel, name, kind string) error {
	const durable, autoDelete, internal, noWait = true, false, false, false
	return ch.ExchangeDeclare(name, "x-delayed-message", durable, autoDelete, internal, noWait, amqp091.Table{"x-delayed-type": kind})
}

// send publishes, and waits for the confirm.
func send(t *testing.T, ch *amqp091.Channel, exchange, id string, delay any) {
	t.Helper()
	headers := amqp091.Table{"mine": "kept"}
	if delay != nil {
		headers["x-delay"] = delay
	}
	const mandatory = true
	confirm, err := ch.PublishWithDeferredConfirm(exchange, "key", mandatory, false, amqp091.Publishing{MessageId: id, Headers: headers, DeliveryMode: 2})
	require.NoError(t, err)
	require.True(t, confirm.Wait(), id)
}

// code is that of the broker's error.
func code(err error) int {
	var refused *amqp091.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

// TestServe_Proxy: what a client of the plugin does, unchanged, and through two proxies of which one
// has seen no declaration.
func TestServe_Proxy(t *testing.T) {
	t.Parallel()
	r := newProxyRig(t)
	s, url := r.start()
	other, otherURL := r.start()
	ch := channel(t, url)
	returned := ch.NotifyReturn(make(chan amqp091.Return, 10))
	require.NoError(t, ch.Confirm(false))
	in := consume(t, ch, "queue")
	long := strings.Repeat("x", 255)
	for name, kind := range map[string]string{"direct": "direct", "topic": "topic", "fanout": "fanout", long: "headers"} {
		require.NoError(t, declareDelayed(ch, name, kind))
		require.NoError(t, ch.QueueBind("queue", "key", name, false, nil))
		require.NoError(t, ch.ExchangeDeclarePassive(name, "x-delayed-message", true, false, false, false, nil))
	}
	require.NoError(t, declareDelayed(ch, "direct", "direct"), "once more")

	began := time.Now()
	elsewhere := channel(t, otherURL)
	require.NoError(t, elsewhere.Confirm(false))
	send(t, ch, "direct", "later", int32(1200))
	send(t, elsewhere, "topic", "later", "1200")
	send(t, ch, "fanout", "later", 1200.0)
	send(t, elsewhere, long, "later", int64(1200))
	send(t, ch, "direct", "at once", nil)
	send(t, ch, "direct", "zero", int32(0))
	require.NoError(t, ch.Publish("direct", "nobody", true, false, amqp091.Publishing{MessageId: "returned"}))
	require.Equal(t, "returned", rabbittest.Next(t, returned).MessageId, "what has no delay is returned")
	require.Equal(t, "at once", rabbittest.Next(t, in).MessageId)
	require.Equal(t, "zero", rabbittest.Next(t, in).MessageId)
	for range 4 {
		d := rabbittest.Next(t, in)
		require.Equal(t, "later", d.MessageId)
		assert.GreaterOrEqual(t, time.Since(began), 1200*time.Millisecond)
		assert.Equal(t, "key", d.RoutingKey)
		assert.Equal(t, "kept", d.Headers["mine"])
		assert.NotContains(t, d.Headers, "x-delay")
		assert.NotContains(t, d.Headers, "x-delayer-exchange")
	}

	// A client that ends without a word. RabbitMQ forgets what quorum queues have not stored by then.
	var wire net.Conn
	client, err := amqp091.DialConfig(url, amqp091.Config{Dial: func(network, addr string) (_ net.Conn, err error) {
		wire, err = net.Dial(network, addr)
		return wire, err
	}})
	require.NoError(t, err)
	left, err := client.Channel()
	require.NoError(t, err)
	const many = 500
	for i := range many {
		require.NoError(t, left.Publish("direct", "key", false, false, amqp091.Publishing{MessageId: fmt.Sprint(i)}))
	}
	require.NoError(t, wire.(*net.TCPConn).CloseWrite())
	for range many {
		rabbittest.Next(t, in)
	}

	tx := channel(t, url)
	require.NoError(t, tx.Tx())
	require.NoError(t, tx.Publish("direct", "key", false, false, amqp091.Publishing{MessageId: "rolled back", Headers: amqp091.Table{"x-delay": int32(1)}}))
	require.NoError(t, tx.TxRollback())
	require.NoError(t, tx.Publish("direct", "key", false, false, amqp091.Publishing{MessageId: "committed", Headers: amqp091.Table{"x-delay": int32(50)}}))
	require.NoError(t, tx.TxCommit())
	require.Equal(t, "committed", rabbittest.Next(t, in).MessageId)

	// An exchange that leads on, as MassTransit has it; one of serve's own; and a message that comes
	// twice through the entry.
	require.NoError(t, declareDelayed(ch, "x_delay", "fanout"))
	require.NoError(t, ch.ExchangeDeclare("x", "fanout", true, false, false, false, nil))
	require.NoError(t, ch.ExchangeBind("x", "", "x_delay", false, nil))
	require.NoError(t, ch.QueueBind("queue", "", "x", false, nil))
	send(t, ch, "x_delay", "led on", int32(50))
	require.Equal(t, "led on", rabbittest.Next(t, in).MessageId)
	require.NoError(t, declareDelayed(ch, "served", "topic"))
	require.NoError(t, ch.QueueBind("queue", "#", "served.delivery", false, nil))
	send(t, ch, "served", "served", int32(50))
	require.Equal(t, "served", rabbittest.Next(t, in).MessageId)
	confirm, err := ch.PublishWithDeferredConfirm("direct", "key", false, false, amqp091.Publishing{
		MessageId: "expires", Expiration: "3600000", Headers: amqp091.Table{"x-delay": int32(50)}})
	require.NoError(t, err)
	require.True(t, confirm.Wait())
	d := rabbittest.Next(t, in)
	require.Equal(t, "expires", d.MessageId)
	require.Equal(t, "3600000", d.Expiration)
	require.Empty(t, returned, "nothing that has a delay")

	// What cannot be understood is kept, and goes where it was to go once it has another delay.
	send(t, ch, "direct", "odd", "5s")
	parked := r.prefix + ".serve.parked." + r.prefix + ".proxy"
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		status, out, _ := command(r.Context(), r.T, "messages", "list", parked, "--config", r.config)
		assert.Equal(t, exitOK, status)
		assert.Contains(t, out, "5s")
	}, time.Minute, 20*time.Millisecond)
	status, out, errs := command(r.Context(), r.T, "status", "--config", r.config)
	require.Equal(t, exitOK, status, errs)
	require.Regexp(t, regexp.QuoteMeta(parked)+" +1\n", out, "without the management API too")
	status, out, errs = command(r.Context(), r.T, "messages", "retry", parked, "--config", r.config, "--delay", "50ms")
	require.Equal(t, exitOK, status, out+errs)
	require.Equal(t, "odd", rabbittest.Next(t, in).MessageId)

	// Deleted through one proxy, and declared again as an ordinary one.
	require.NoError(t, elsewhere.ExchangeDelete("direct", false, false))
	gone := channel(t, url)
	closed := gone.NotifyClose(make(chan *amqp091.Error, 1))
	require.NoError(t, gone.Publish("direct", "key", false, false, amqp091.Publishing{Headers: amqp091.Table{"x-delay": int32(1)}}))
	require.Equal(t, amqp091.NotFound, rabbittest.Next(t, closed).Code)
	require.NoError(t, ch.ExchangeDeclare("direct", "direct", true, false, false, false, nil))
	require.NoError(t, ch.QueueBind("queue", "key", "direct", false, nil))
	send(t, ch, "direct", "no delay", int32(3_600_000))
	require.Equal(t, "no delay", rabbittest.Next(t, in).MessageId)

	s.eventually(t, `delayer_proxy_total{action="declared"} 6`)
	s.eventuallyLike(t, `delayer_proxy_connections [1-9]`)
	require.Equal(t, exitOK, other.stop())

	// A new process knows what was declared before.
	again, againURL := r.start()
	later := channel(t, againURL)
	require.NoError(t, later.Confirm(false))
	began = time.Now()
	send(t, later, "topic", "after a restart", int32(500))
	require.Equal(t, "after a restart", rabbittest.Next(t, in).MessageId)
	assert.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)

	down := ch.NotifyClose(make(chan *amqp091.Error, 1))
	require.Equal(t, exitOK, s.stop())
	why := rabbittest.Next(t, down)
	require.Equal(t, amqp091.ConnectionForced, why.Code)
	require.Contains(t, why.Reason, "delayer: it is shutting down")
	require.Equal(t, exitOK, again.stop())
}

// TestServe_ProxyAutoDelete: the broker deletes an exchange by itself, and no proxy hears of it.
func TestServe_ProxyAutoDelete(t *testing.T) {
	t.Parallel()
	r := newProxyRig(t)
	s, url := r.start()
	ch := channel(t, url)
	returned := ch.NotifyReturn(make(chan amqp091.Return, 10))
	require.NoError(t, ch.Confirm(false))
	in := consume(t, ch, "queue")
	declare := func(ch *amqp091.Channel, durable, autoDelete bool) error {
		return ch.ExchangeDeclare("orders", "x-delayed-message", durable, autoDelete, false, false, amqp091.Table{"x-delayed-type": "direct"})
	}
	arrives := func(id string) {
		t.Helper()
		began := time.Now()
		send(t, ch, "orders", id, int32(200))
		require.Equal(t, id, rabbittest.Next(t, in).MessageId)
		assert.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	}
	const durable, transient, autoDelete, stays = true, false, true, false
	require.NoError(t, declare(ch, transient, autoDelete))
	require.NoError(t, ch.QueueBind("queue", "key", "orders", false, nil))
	require.ErrorContains(t, declare(channel(t, url), durable, autoDelete), "inequivalent arg 'durable'")
	require.ErrorContains(t, declare(channel(t, url), transient, stays), "inequivalent arg 'auto_delete'")
	arrives("first")

	send(t, ch, "orders", "waiting", int32(500))
	require.NoError(t, ch.QueueUnbind("queue", "key", "orders", nil)) // the last binding
	for what, delay := range map[string]amqp091.Table{"a delay": {"x-delay": int32(1)}, "no delay": nil} {
		other := channel(t, url)
		closed := other.NotifyClose(make(chan *amqp091.Error, 1))
		require.NoError(t, other.Publish("orders", "key", false, false, amqp091.Publishing{Headers: delay}))
		require.Equal(t, amqp091.NotFound, rabbittest.Next(t, closed).Code, what)
	}
	send(t, ch, "orders", "from who was allowed to", int32(1))
	direct := channel(t, r.url) // a message that serve reads once it is due is parked; others are kept
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		waiting := 0
		for _, queue := range []string{r.prefix + ".unroutable", r.prefix + ".serve.parked." + r.prefix + ".proxy"} {
			q, err := direct.QueueDeclarePassive(queue, true, false, false, false, nil)
			require.NoError(t, err)
			waiting += q.Messages
		}
		require.Equal(t, 2, waiting)
	}, time.Minute, 20*time.Millisecond)

	require.NoError(t, declare(ch, durable, autoDelete))
	require.NoError(t, ch.QueueBind("queue", "key", "orders", false, nil))
	arrives("again")
	require.Empty(t, returned, "nothing that has a delay")
	require.Equal(t, exitOK, s.stop())
}

// TestServe_ProxyRefuses: what the broker, or the plugin, would refuse, with a reason; and what a
// user must not do is not done by the proxy either.
func TestServe_ProxyRefuses(t *testing.T) {
	t.Parallel()
	r := newProxyRig(t)
	s, url := r.start()
	for what, c := range map[string]struct {
		do   func(*amqp091.Channel) error
		code int
		text string
	}{
		"another type": {func(ch *amqp091.Channel) error {
			require.NoError(t, declareDelayed(ch, "one", "direct"))
			return declareDelayed(ch, "one", "topic")
		}, amqp091.PreconditionFailed, "inequivalent arg 'type'"},
		"no type": {func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclare("two", "x-delayed-message", true, false, false, false, nil)
		}, amqp091.PreconditionFailed, "exchange 'two' needs the argument x-delayed-type"},
		"the same type": {func(ch *amqp091.Channel) error {
			return declareDelayed(ch, "two", "x-delayed-message")
		}, amqp091.PreconditionFailed, "needs the argument x-delayed-type"},
		"our name": {func(ch *amqp091.Channel) error {
			return declareDelayed(ch, r.prefix+".mine", "direct")
		}, amqp091.PreconditionFailed, "its name is one of delayer's own"},
		"the broker's name": {func(ch *amqp091.Channel) error {
			return declareDelayed(ch, "amq.mine", "direct")
		}, amqp091.AccessRefused, "amq."},
		"a binding": {func(ch *amqp091.Channel) error {
			require.NoError(t, declareDelayed(ch, "three", "direct"))
			return ch.ExchangeBind("three", "", "amq.fanout", false, nil)
		}, amqp091.NotImplemented, "through a binding would not be delayed"},
	} {
		ch := channel(t, url)
		err := c.do(ch)
		require.ErrorContains(t, err, c.text, what)
		require.Equal(t, c.code, code(err), what)
		require.True(t, ch.IsClosed(), what)
	}

	elsewhere := r.prefix + "-elsewhere"
	at, err := amqp091.ParseURI(url)
	require.NoError(t, err)
	ctl := func(args ...string) {
		t.Helper()
		_, err := r.broker.Ctl(t.Context(), args...)
		require.NoError(t, err)
	}
	ctl("add_vhost", elsewhere)
	ctl("set_permissions", "-p", elsewhere, at.Username, ".*", ".*", ".*")
	there := at
	there.Vhost = elsewhere
	err = declareDelayed(channel(t, there.String()), "x", "direct")
	require.ErrorContains(t, err, "cannot be delayed in this virtual host, but in '"+at.Vhost)

	// Users: one may write to the exchange alone, one to what is in front of it alone.
	owner := channel(t, url)
	require.NoError(t, declareDelayed(owner, "guarded", "fanout"))
	in := consume(t, owner, "guarded")
	require.NoError(t, owner.QueueBind("guarded", "", "guarded", false, nil))
	front := strings.ReplaceAll(r.prefix, ".", `\.`) + `\.proxy\.`
	for user, write := range map[string]string{"behind": "^guarded$", "before": "^" + front, "both": "^(" + front + ")?guarded$"} {
		as := rabbittest.User(t, r.broker, url, "^$", write, "^$")
		who, err := amqp091.ParseURI(as)
		require.NoError(t, err)
		ch := channel(t, as)
		require.NoError(t, ch.Confirm(false))
		closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
		confirm, err := ch.PublishWithDeferredConfirm("guarded", "key", false, false, amqp091.Publishing{
			UserId: who.Username, MessageId: user, Body: []byte("body"), Headers: amqp091.Table{"x-delay": int32(1)}})
		require.NoError(t, err)
		if user == "both" {
			require.True(t, confirm.Wait())
			require.Equal(t, "both", rabbittest.Next(t, in).MessageId)
			continue
		}
		why := rabbittest.Next(t, closed)
		require.Equal(t, amqp091.AccessRefused, why.Code, why.Reason)
		require.Equal(t, user == "before", strings.Contains(why.Reason, "'guarded'"), why.Reason)
		ch = channel(t, as)
		closed = ch.NotifyClose(make(chan *amqp091.Error, 1))
		require.NoError(t, ch.ExchangeDeclare("x", "x-delayed-message", true, false, false, true, amqp091.Table{"x-delayed-type": "topic"}))
		require.Equal(t, amqp091.AccessRefused, rabbittest.Next(t, closed).Code)
	}

	// Another user's retry would not be believed.
	back, parked := r.prefix+".serve.back."+r.prefix+".proxy", r.prefix+".serve.parked."+r.prefix+".proxy"
	require.NoError(t, owner.Publish("guarded", "key", false, false, amqp091.Publishing{Headers: amqp091.Table{"x-delay": "soon"}}))
	holds(t, owner, parked, 1)
	theirs := configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder, rabbittest.User(t, r.broker, r.url, ".*", ".*", ".*"), r.prefix))
	status, out, errs := command(r.Context(), r.T, "messages", "retry", parked, "--config", theirs, "--delay", "0")
	require.Equal(t, exitFailed, status)
	require.Contains(t, out, fmt.Sprintf("Retry as user %q", at.Username), errs)
	holds(t, owner, parked, 1)

	// To the queue behind the entry, as if it had come through it.
	forged := amqp091.Publishing{MessageId: "forged", Headers: amqp091.Table{
		"x-death": []any{amqp091.Table{"queue": r.prefix + ".serve.queue." + r.prefix + ".proxy", "reason": "expired", "exchange": r.prefix + ".proxy.guarded", "count": int64(1)}},
	}}
	require.NoError(t, owner.Publish("", back, false, false, forged))
	forged.Headers = amqp091.Table{
		"x-delayer-entry": amqp091.Table{"due": true},
		"x-delayer-retry": amqp091.Table{"queue": back, "exchange": r.prefix + ".proxy.guarded"},
	}
	require.NoError(t, owner.Publish("", back, false, false, forged))
	holds(t, owner, parked, 3)
	require.NoError(t, owner.Publish("", parked, false, false, forged))
	holds(t, owner, parked, 4)
	_, out, _ = command(r.Context(), r.T, "messages", "retry", parked, "--config", r.config, "--delay", "0")
	require.Contains(t, out, "4 messages in "+parked+": 1 sent, 3 stay")
	require.Empty(t, rabbittest.Next(t, in).MessageId, "not what is forged")
	_, out, _ = command(r.Context(), r.T, "messages", "list", parked, "--config", r.config)
	require.Contains(t, out, r.prefix+".proxy.guarded", "as it came")
	require.Empty(t, in)
	require.Equal(t, exitOK, s.stop())
}

// TestServe_ProxyTakesOver: an exchange of the plugin's becomes ours before it is an ordinary one,
// and after that.
func TestServe_ProxyTakesOver(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	if !b.HasPlugin(rabbittest.DelayedMessages) {
		rabbittest.Skipf(t, "needs the plugin %s", rabbittest.DelayedMessages)
	}
	r := newProxyRig(t)
	direct := channel(t, r.url)
	require.NoError(t, declareDelayed(direct, "orders", "topic"))
	passing, url := r.start()
	ch := channel(t, url)
	require.NoError(t, ch.Confirm(false))
	in := consume(t, ch, "queue")
	arrives := func(id string) {
		t.Helper()
		began := time.Now()
		send(t, ch, "orders", id, int32(500))
		require.Equal(t, id, rabbittest.Next(t, in).MessageId)
		require.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)
	}
	require.NoError(t, declareDelayed(ch, "orders", "topic"))
	require.NoError(t, ch.QueueBind("queue", "#", "orders", false, nil))
	arrives("by the plugin")
	passing.eventually(t, `delayer_proxy_total{action="diverted"} 0`)
	require.Equal(t, exitOK, passing.stop())

	r.config = configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+"serve: {amqp: {listen: 127.0.0.1:0, take_over: true}}\n", r.url, r.prefix))
	s, url := r.start()
	ch = channel(t, url)
	require.NoError(t, ch.Confirm(false))
	in, err := ch.Consume("queue", "", true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, declareDelayed(ch, "orders", "topic"))
	arrives("by delayer, through the plugin's exchange")
	require.NoError(t, direct.ExchangeDelete("orders", false, false))
	require.NoError(t, direct.ExchangeDeclare("orders", "topic", true, false, false, false, nil))
	require.NoError(t, direct.QueueBind("queue", "#", "orders", false, nil))
	arrives("by delayer, through an ordinary one that nobody has declared to the proxy")
	require.NoError(t, declareDelayed(ch, "orders", "topic"))
	arrives("by delayer")
	s.eventually(t, `delayer_proxy_total{action="diverted"} 3`)
	require.Equal(t, exitOK, s.stop())
}

// BenchmarkServe_Proxy publishes messages of 200 bytes without a delay to a classic queue, a hundred
// unconfirmed at a time: straight to the broker and through the proxy, in turn for a second each.
func BenchmarkServe_Proxy(b *testing.B) {
	url, prefix := rabbittest.Broker(b).URL(), rabbittest.Prefix(b)
	s := serve(b, "serve", "--config", configFile(b, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+"serve: {amqp: {listen: 127.0.0.1:0}}\n", url, prefix)))
	channels := map[string]*amqp091.Channel{"direct": channel(b, url), "proxy": channel(b, throughProxy(b, s, url))}
	for _, ch := range channels {
		require.NoError(b, ch.Confirm(false))
	}
	queue := prefix + "-queue"
	_, err := channels["direct"].QueueDeclare(queue, true, true, false, false, amqp091.Table{"x-max-length": int64(1000)})
	require.NoError(b, err)
	require.NoError(b, channels["direct"].ExchangeDeclare(prefix, "direct", false, true, false, false, nil))
	require.NoError(b, channels["direct"].QueueBind(queue, "key", prefix, false, nil))
	const unconfirmed, stretch = 100, time.Second
	sent, late := map[string]int{}, map[string][]time.Duration{}
	var spent time.Duration
	for b.Loop() {
		for _, how := range []string{"direct", "proxy"} {
			ch := channels[how]
			var waiting []func()
			for began := time.Now(); time.Since(began) < stretch; {
				at := time.Now()
				confirm, err := ch.PublishWithDeferredConfirm(prefix, "key", false, false, amqp091.Publishing{Body: make([]byte, 200)})
				require.NoError(b, err)
				waiting = append(waiting, func() {
					confirm.Wait()
					late[how] = append(late[how], time.Since(at))
				})
				if len(waiting) == unconfirmed {
					waiting[0]()
					waiting = waiting[1:]
				}
				sent[how]++
			}
			for _, wait := range waiting {
				wait()
			}
		}
		spent += stretch
	}
	for how, n := range sent {
		slices.Sort(late[how])
		b.ReportMetric(float64(n)/spent.Seconds(), how+"-msgs/s")
		b.ReportMetric(float64(late[how][len(late[how])*99/100].Microseconds())/1000, how+"-p99-ms")
	}
}
