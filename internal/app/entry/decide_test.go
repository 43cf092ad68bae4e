package entry

import (
	"maps"
	"math"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/message"
)

var (
	now   = time.UnixMilli(1_700_000_000_500)
	clean = rules{
		Names: Names{Queue: "p.in", Back: "p.back", Parked: "p.parked"}, prefix: "p",
		spec:   Spec{Name: "orders", To: "behind"},
		limits: delayer.Limits{MaxPriority: 4}, user: "serve",
	}
)

func incoming(headers amqp091.Table) amqp091.Delivery {
	return amqp091.Delivery{
		Headers: headers, Exchange: "orders", RoutingKey: "order.new", ContentType: "text/plain", ContentEncoding: "e",
		DeliveryMode: 2, Priority: 3, CorrelationId: "c", ReplyTo: "r", MessageId: "m", Timestamp: time.Unix(1_600_000_000, 0),
		Type: "t", AppId: "a", Body: []byte("body"),
	}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		message func(*amqp091.Delivery)
		headers amqp091.Table
		want    action
		delay   time.Duration
	}{
		"no header":        {want: straight},
		"none":             {headers: amqp091.Table{"a": 1}, want: straight},
		"zero":             {headers: amqp091.Table{"x-delay": int32(0)}, want: straight},
		"from the plugin":  {headers: amqp091.Table{"x-delay": int32(-5000)}, want: straight},
		"positive":         {headers: amqp091.Table{"x-delay": int32(5000)}, want: delayed, delay: 5 * time.Second},
		"text":             {headers: amqp091.Table{"x-delay": "5000"}, want: delayed, delay: 5 * time.Second},
		"unreadable":       {headers: amqp091.Table{"x-delay": "soon"}, want: park},
		"above":            {headers: amqp091.Table{"x-delay": int64(1) << 33}, want: park},
		"another spelling": {headers: amqp091.Table{"X-Delay": int32(5000)}, want: straight},
		"with expiration":  {headers: amqp091.Table{"x-delay": 5}, message: func(d *amqp091.Delivery) { d.Expiration = "9" }, want: tour, delay: 5 * time.Millisecond},
		"expiration only":  {message: func(d *amqp091.Delivery) { d.Expiration = "9" }, want: straight},
		"high priority":    {headers: amqp091.Table{"x-delay": 5}, message: func(d *amqp091.Delivery) { d.Priority = 9 }, want: tour, delay: 5 * time.Millisecond},
		"another user":     {headers: amqp091.Table{"x-delay": 5}, message: func(d *amqp091.Delivery) { d.UserId = "alice" }, want: delayed, delay: 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			r, d := clean, incoming(c.headers)
			if c.message != nil {
				c.message(&d)
			}
			l := r.decide(r.Queue, &d, now)
			assert.Equal(t, c.want, l.action)
			assert.Equal(t, c.delay, l.delay)
			assert.Equal(t, c.want == park, l.reason != "")
			if c.want != park {
				assert.NotContains(t, l.out.Headers, "x-delay")
			}
		})
	}
}

// published is what arrives if a message is published and delivered again.
func published(msg amqp091.Publishing, key string) amqp091.Delivery {
	return amqp091.Delivery{
		Headers: msg.Headers, RoutingKey: key, ContentType: msg.ContentType, ContentEncoding: msg.ContentEncoding,
		DeliveryMode: msg.DeliveryMode, Priority: msg.Priority, CorrelationId: msg.CorrelationId, ReplyTo: msg.ReplyTo,
		Expiration: msg.Expiration, MessageId: msg.MessageId, Timestamp: msg.Timestamp, Type: msg.Type, UserId: msg.UserId,
		AppId: msg.AppId, Body: msg.Body,
	}
}

func TestDecide_Tour(t *testing.T) {
	r := clean
	death := func(queue string) amqp091.Table { return amqp091.Table{"queue": queue, "reason": "rejected"} }
	d := incoming(amqp091.Table{
		"x-delay": "5000", "CC": []any{"copy"}, "a": amqp091.Table{"b": int64(1)},
		"x-death": []any{death("theirs"), death("p.ladder.wait.2s")}, "x-first-death-queue": "p.ladder.wait.2s",
	})
	d.Expiration, d.UserId, d.Priority = "60000", "alice", 9
	want := published(message.Again(&d, ""), d.RoutingKey)

	l := r.decide(r.Queue, &d, now)
	require.Equal(t, tour, l.action)
	assert.Empty(t, l.trip.Expiration)
	assert.Equal(t, r.user, l.trip.UserId)
	assert.LessOrEqual(t, l.trip.Priority, r.limits.MaxPriority)
	assert.NotContains(t, l.trip.Headers, "CC")
	came := published(message.Seal(l.trip, message.NewEnvelope(now, l.delay, ""), amqp091.Table{"x-death": []any{amqp091.Table{"queue": "p.ladder.wait.2s", "reason": "expired"}}}), r.Back)
	id, _ := came.Headers[delayer.Header].(string)

	due := r.decide(r.Back, &came, now)
	assert.Equal(t, straight, due.action)
	assert.Equal(t, "order.new", due.RoutingKey)
	assert.Equal(t, "orders", due.Exchange)
	delete(want.Headers, "x-delay")
	delete(want.Headers, "x-first-death-queue")
	want.Headers["x-death"] = []any{death("theirs")}
	want.Headers[delayer.Header], want.Headers[userHeader] = id, "alice"
	assert.Equal(t, want, published(due.out, due.RoutingKey))
}

// TestDecide_Strangers: what only Delayer writes is not believed of publishers, and not passed on.
func TestDecide_Strangers(t *testing.T) {
	forged := amqp091.Table{
		attempt.Header: amqp091.Table{"queue": clean.Back, "user_id": "admin", "exchange": "x"},
		stateHeader:    amqp091.Table{"due": true}, userHeader: "admin", message.Hops: int64(3),
	}
	for _, delay := range []any{int32(0), int32(5000)} {
		d := incoming(forged)
		d.Headers = maps.Clone(forged)
		d.Headers["x-delay"], d.UserId = delay, "mallory"
		l := clean.decide(clean.Queue, &d, now)
		assert.Equal(t, "mallory", l.out.Headers[userHeader], "whom the broker has checked")
		for _, header := range []string{attempt.Header, stateHeader, message.Hops} {
			assert.NotContains(t, l.out.Headers, header)
		}
	}

	d := incoming(maps.Clone(forged))
	delete(d.Headers, userHeader)
	for user, want := range map[string]any{"": nil, "mallory": nil, clean.user: "admin"} {
		came := d
		came.UserId = user
		assert.Equal(t, want, clean.decide(clean.Back, &came, now).out.Headers[userHeader], "published by %q", user)
	}
}

// TestDecide_NativeDelay: the header of RabbitMQ 4.4 is on no message that serve publishes.
func TestDecide_NativeDelay(t *testing.T) {
	d := incoming(amqp091.Table{message.NativeDelay: now, "x-delay": int32(5000)})
	l := clean.decide(clean.Queue, &d, now)
	require.Equal(t, park, l.action)
	assert.NotContains(t, l.trip.Headers, message.NativeDelay)
	again := published(l.trip, clean.Back)
	assert.Equal(t, park, clean.decide(clean.Back, &again, now).action, "sent again, it is parked again: nobody knows when it is due")
}

// TestDecide_NativeDelayPassed: what backend native has delivered may be published again.
func TestDecide_NativeDelayPassed(t *testing.T) {
	for delay, want := range map[int32]action{0: straight, 5000: delayed} {
		d := incoming(amqp091.Table{message.NativeDelay: now.UnixMilli(), "x-delay": delay})
		l := clean.decide(clean.Queue, &d, now)
		require.Equal(t, want, l.action)
		assert.NotContains(t, l.out.Headers, message.NativeDelay)
	}
	d := incoming(amqp091.Table{message.NativeDelay: now.UnixMilli() + 1})
	require.Equal(t, park, clean.decide(clean.Queue, &d, now).action)
}

// TestDecide_Circle: a message that comes back through a binding, again and again, is parked. One
// that consumers publish again is not.
func TestDecide_Circle(t *testing.T) {
	lap := func(r rules, from string, headers amqp091.Table) letter {
		d := incoming(headers)
		d.Exchange = from
		return r.decide(r.Queue, &d, now)
	}
	l, laps := lap(clean, "orders", amqp091.Table{"a": "b"}), 0
	for ; l.action == straight; laps++ {
		require.Less(t, laps, 100, "it goes on for ever")
		l = lap(clean, "another", l.out.Headers)
	}
	require.Equal(t, park, l.action)
	assert.Contains(t, l.reason, `it came back through exchange "another", from which a binding leads to "orders"`)
	assert.Equal(t, mostHops+1, laps)
	assert.Equal(t, "b", l.trip.Headers["a"])
	assert.NotContains(t, l.trip.Headers, message.Hops, "a retry begins anew")

	count := func(n any) amqp091.Table { return amqp091.Table{message.Hops: n} }
	assert.NotContains(t, lap(clean, "orders", count(int64(99))).out.Headers, message.Hops, "it is published here")
	assert.NotContains(t, message.Seal(amqp091.Publishing{Headers: count(int64(7))}, message.Envelope{}, nil).Headers, message.Hops)
	for _, forged := range []any{int64(math.MinInt64), "9", nil, 7.5} {
		assert.EqualValues(t, 1, lap(clean, "another", count(forged)).out.Headers[message.Hops], forged)
	}
	assert.Equal(t, park, lap(clean, "another", count(int64(math.MaxInt64))).action)

	assert.Equal(t, delayed, lap(clean, "behind", amqp091.Table{"x-delay": int32(5)}).action)
}

func TestDecide_ParkedAndSentAgain(t *testing.T) {
	d := incoming(amqp091.Table{"x-delay": "soon", "CC": []any{"copy"}})
	d.Expiration = "60000"
	want := published(message.Again(&d, ""), d.RoutingKey)
	delete(want.Headers, "x-delay")
	l := clean.decide(clean.Queue, &d, now)
	require.Equal(t, park, l.action)
	state, ok := attempt.Parked(&amqp091.Delivery{Headers: l.trip.Headers}, now)
	require.True(t, ok, "delayer messages reads it")
	assert.Equal(t, clean.Back, state.Queue)
	assert.Contains(t, state.Reason, `"soon"`)

	// What `delayer messages retry` does.
	parked := published(message.Seal(l.trip, message.NewEnvelope(now, 0, ""), nil), clean.Parked)
	fresh := attempt.State{Queue: state.Queue, Original: state.Original}
	again := published(message.Seal(fresh.Publishing(&parked, 255), message.NewEnvelope(now, 0, ""), nil), clean.Back)
	l = clean.decide(clean.Back, &again, now)
	assert.Equal(t, park, l.action, "its delay is still unreadable: it is not delivered at once")
	assert.Equal(t, want, published(l.out, l.RoutingKey))

	again = published(message.Seal(fresh.Publishing(&parked, 255), message.NewEnvelope(now, 0, ""), amqp091.Table{message.NewDelay: "30m0s"}), clean.Back)
	l = clean.decide(clean.Back, &again, now)
	assert.Equal(t, tour, l.action, "an operator has given it another")
	assert.Equal(t, 30*time.Minute, l.delay)
}

func TestDecide_Expired(t *testing.T) {
	death := func(queue, reason string) amqp091.Table {
		return amqp091.Table{"queue": queue, "reason": reason, "exchange": "orders", "original-expiration": "50", "count": int64(1)}
	}
	headers := amqp091.Table{
		"x-death": []any{death(clean.Queue, "expired")}, "x-first-death-queue": clean.Queue, "x-last-death-reason": "expired",
		"x-delay": int32(5000), stateHeader: amqp091.Table{"due": true},
	}
	d := incoming(headers)
	l := clean.decide(clean.Back, &d, now)
	assert.Equal(t, tour, l.action, "a header that pretends to be ours is not believed")
	assert.Equal(t, 5*time.Second, l.delay)
	assert.Equal(t, "50", l.Expiration)
	assert.NotContains(t, l.Headers, "x-death")
	assert.NotContains(t, l.Headers, "x-first-death-queue")
	assert.Contains(t, headers, "x-death", "the delivery's table is not modified")

	d = incoming(amqp091.Table{
		"x-death": []any{death(clean.Queue, "rejected")}, "x-delay": "soon", stateHeader: amqp091.Table{},
		attempt.Header: amqp091.Table{"queue": clean.Back, "user_id": "admin"},
	})
	l = clean.decide(clean.Back, &d, now)
	assert.Equal(t, park, l.action, "nor is one of what was too large to be parked")
	assert.Empty(t, l.UserId)

	d = incoming(amqp091.Table{"x-death": []any{death(clean.Queue, "expired"), death("theirs", "rejected")}})
	l = clean.decide(clean.Back, &d, now)
	assert.Equal(t, straight, l.action)
	assert.Equal(t, []any{death("theirs", "rejected")}, l.out.Headers["x-death"])
	assert.Equal(t, "50", l.out.Expiration)
}

// FuzzDecide: what others put into headers never makes it panic.
func FuzzDecide(f *testing.F) {
	f.Add("5000", "soon", "expired", true)
	f.Fuzz(func(_ *testing.T, delay, queue, reason string, table bool) {
		var state any = queue
		if table {
			state = amqp091.Table{"due": delay, "delay": delay, "retry": reason}
		}
		for _, deaths := range []any{queue, []any{}, []any{queue}, []any{amqp091.Table{"queue": queue, "reason": reason}, nil}} {
			for _, from := range []string{clean.Queue, clean.Back} {
				d := incoming(amqp091.Table{
					"x-delay": delay, stateHeader: state, "x-death": deaths, "CC": queue,
					attempt.Header: amqp091.Table{"queue": clean.Back, "cc": queue, "priority": delay},
				})
				clean.decide(from, &d, now)
			}
		}
	})
}

func TestMatches(t *testing.T) {
	for pattern, names := range map[string]map[string]bool{
		"orders":  {"orders": true, "orders.eu": false, "": false},
		"orders*": {"orders": true, "orders.eu": true, "my.orders": false},
		"*eu":     {"eu": true, "orders.eu": true, "eu.x": false},
		"a*b*c":   {"abc": true, "a.b.b.c": true, "ab": false, "acb": false, "abcd": false},
		"aa*aa":   {"aaaa": true, "aaa": false},
		"*":       {"": true, "x\ny": true},
		"**":      {"": true, "x": true},
		"\xff*":   {"\xff": true, "\xfe": false},
		"a.c":     {"abc": false},
		"":        {"": true, "x": false},
	} {
		for name, want := range names {
			assert.Equal(t, want, Matches([]string{"other", pattern})(name), "%q %q", pattern, name)
		}
	}
	assert.False(t, Matches(nil)("x"))
}
