package undelivered

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// TestWaits: what remains of a delay is known without a clock; where something remains, the clock
// must say twice that it is over.
func TestWaits(t *testing.T) {
	due := time.Unix(1000, 0)
	c := &Client{prefix: "p", Rules: delivery.Rules{TTL: func(queue string) (time.Duration, bool) { return time.Minute, queue == "wait" }}}
	of := func(headers amqp091.Table) *Kept {
		headers[delayer.Header] = message.Envelope{ID: "id", Due: due, Delay: time.Minute}.String()
		return newKept(c, amqp091.Delivery{Headers: headers}, &window{})
	}
	past := due.Add(-time.Hour)
	waited := of(amqp091.Table{"x-death": []any{amqp091.Table{"time": due, "queue": "wait", "reason": "expired"}, "nonsense"}})
	require.Equal(t, due, waited.Came)
	require.False(t, waited.Early())
	require.Empty(t, waited.waits(past), "however slow this clock is")

	early := of(amqp091.Table{message.Came: due.Add(time.Hour)})
	require.True(t, early.Early())
	require.Contains(t, early.waits(due.Add(time.Hour)), "it is not due before", "it has not been there for a minute")
	require.Empty(t, early.waits(due.Add(time.Hour+time.Minute)))
	require.Contains(t, of(amqp091.Table{message.Came: past}).waits(past.Add(time.Minute)), "it is not due before")

	held := of(amqp091.Table{message.Stamp: amqp091.Table{}})
	require.False(t, held.Known)
	require.Contains(t, held.waits(past), "it is not due before")
	require.Empty(t, held.waits(due))
	require.False(t, newKept(c, amqp091.Delivery{Headers: amqp091.Table{delayer.Header: "nonsense"}}, nil).Ours)
}

// TestExport_Unknown: what is not known is null or missing, and what is not UTF-8 is in base64.
func TestExport_Unknown(t *testing.T) {
	m := newKept(&Client{prefix: "p"}, amqp091.Delivery{RoutingKey: "\xff", Body: []byte{1, 2}, MessageId: "m", Priority: 9}, nil)
	text, err := m.Export()
	require.NoError(t, err)
	require.JSONEq(t, `{"exchange": null, "routing_key": {"base64": "/w=="}, "properties": {"message_id": "m", "priority": 9}, "headers": {}, "body": "AQI="}`, string(text))
	m.Headers = amqp091.Table{"x": struct{}{}}
	_, err = m.Export()
	require.ErrorContains(t, err, `header "x"`)
}

// TestBundle: a bundle is sent to no destination, also not to one that somebody names.
func TestBundle(t *testing.T) {
	anywhere, found := "orders", Bundle{To: "p.log", Why: "it is cut short"}
	c := &Client{prefix: "p", To: &anywhere, Bundle: func(kind string, body []byte) *Bundle {
		require.Equal(t, "bundle cut", kind+" "+string(body))
		return &found
	}}
	m := newKept(c, amqp091.Delivery{RoutingKey: "key", ContentType: "bundle", Body: []byte("cut")}, nil)
	exchange, key, known := m.Destination()
	require.Equal(t, []any{"", "p.log", true}, []any{exchange, key, known})
	found.To = ""
	_, _, known = m.Destination()
	require.False(t, known)
	why, err := (&Sender{client: c}).Unfit(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, "it is cut short: export and purge it", why)
}

// TestPublished: a parked message that a Delayer had delivered was published to no exchange of its.
func TestPublished(t *testing.T) {
	c := &Client{Owner: "p", queues: []string{"jobs.parked"}}
	of := func(deliveredBy, destination string) string {
		d := amqp091.Delivery{Exchange: deliveredBy, RoutingKey: "jobs", Headers: amqp091.Table{
			delayer.Header: message.Envelope{ID: "id", Exchange: destination}.String(),
		}}
		state := attempt.First("jobs", &d)
		exchange, key, known := (&Kept{Parked: &state, client: c}).Published()
		require.True(t, known)
		require.Equal(t, "jobs", key)
		return exchange
	}
	require.Empty(t, of("p.ladder.step.2s", ""))
	require.Equal(t, "orders", of("p.delivery", "orders"))
	require.Equal(t, "mine", of("mine", "orders"), "the header is of an earlier publish")
}
