package delivery

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

func TestRead(t *testing.T) {
	m := &Mover{stage: NewStage("p", true), cfg: MoverConfig{Rules: Rules{Own: func(headers amqp091.Table) (time.Duration, bool) {
		remaining, known := headers["remains"].(int64)
		return time.Duration(remaining), known
	}}}}
	ours := func(exchange string) string {
		return message.Envelope{ID: "id", Delay: time.Hour, Due: time.Unix(0, 0), Exchange: exchange}.String()
	}
	sent := []any{amqp091.Table{"exchange": "p.delivery"}}
	for name, c := range map[string]struct {
		headers amqp091.Table
		key     string
		want    action
	}{
		"not ours":                      {nil, "q", keep},
		"to an object of ours":          {amqp091.Table{delayer.Header: ours(""), "remains": int64(0)}, "p.unroutable", keep},
		"to an object of ours, waiting": {amqp091.Table{delayer.Header: ours("p.x"), "remains": int64(1)}, "q", keep},
		"remaining not known":           {amqp091.Table{delayer.Header: ours(""), message.Stamp: amqp091.Table{}}, "q", keep},
		"something remains":             {amqp091.Table{delayer.Header: ours(""), "remains": int64(1)}, "q", wait},
		"due":                           {amqp091.Table{delayer.Header: ours(""), "remains": int64(0)}, "q", send},
		"delivered before":              {amqp091.Table{delayer.Header: ours("x"), "remains": int64(0), "x-death": sent}, "q", keep},
		"delivered before, by a clock":  {amqp091.Table{delayer.Header: ours("x"), "remains": int64(1), "x-death": sent}, "q", keep},
	} {
		require.Equal(t, c.want, m.read(&amqp091.Delivery{RoutingKey: c.key, Headers: c.headers}).action, name)
	}
}

func death(queue, reason string) amqp091.Table {
	return amqp091.Table{"queue": queue, "reason": reason}
}

func TestDelivered(t *testing.T) {
	by := func(exchange any) any { return amqp091.Table{"queue": "q", "reason": "expired", "exchange": exchange} }
	for name, c := range map[string]struct {
		deaths any
		want   bool
	}{
		"nowhere":             {nil, false},
		"waited":              {[]any{by("p.enter")}, false},
		"waited, then a tier": {[]any{by("p.delivery"), by("p.enter")}, true},
		"sent on, then there": {[]any{by("orders")}, true},
		"by the default one":  {[]any{by("")}, false},
		"nonsense":            {[]any{1, by(2), amqp091.Table{}}, false},
		"no list":             {"x", false},
	} {
		require.Equal(t, c.want, delivered(amqp091.Table{"x-death": c.deaths}, "p.delivery", "orders", ""), name)
	}
}

func TestRemaining(t *testing.T) {
	plan := topology.Plan{Queues: []topology.Queue{
		objects.WaitingQueue("p.8", delayer.Quorum, 8*time.Second, "x"), objects.WaitingQueue("p.4", delayer.Classic, 4*time.Second, "x"),
		{Name: "p.other", Args: amqp091.Table{"x-queue-type": "quorum"}},
	}}
	rules := Rules{TTL: TTLs("p", plan)}
	envelope := message.Envelope{ID: "id", Delay: 13 * time.Second, Due: time.Unix(0, 0)}
	for name, c := range map[string]struct {
		headers amqp091.Table
		want    time.Duration
		unknown bool
	}{
		"has not waited":          {nil, 13 * time.Second, false},
		"one hop":                 {amqp091.Table{"x-death": []any{death("p.8", "expired")}}, 5 * time.Second, false},
		"two hops":                {amqp091.Table{"x-death": []any{death("p.4", "expired"), death("p.8", "expired")}}, time.Second, false},
		"left for another reason": {amqp091.Table{"x-death": []any{death("p.8", "maxlen")}}, 13 * time.Second, false},
		"another's queue":         {amqp091.Table{"x-death": []any{death("theirs", "expired"), death("p.other", "expired")}}, 13 * time.Second, false},
		"nonsense":                {amqp091.Table{"x-death": []any{"x", amqp091.Table{"queue": 1}}}, 13 * time.Second, false},
		"no list":                 {amqp091.Table{"x-death": "x"}, 13 * time.Second, false},
		"hidden by another":       {amqp091.Table{"x-death": []any{death("p.native.wait.3", "expired")}}, 0, false},
		"hidden, and full":        {amqp091.Table{"x-death": []any{death("p.native.wait.3", "maxlen")}}, 13 * time.Second, false},
		"another's ladder":        {amqp091.Table{"x-death": []any{death("p.ladder.wait.10s", "expired")}}, 3 * time.Second, false},
		"of another prefix":       {amqp091.Table{"x-death": []any{death("x.p.native.wait.3", "expired"), death("q.ladder.wait.10s", "expired")}}, 13 * time.Second, false},
		"a controller's":          {amqp091.Table{message.Stamp: amqp091.Table{}}, 0, true},
	} {
		got, ok := rules.Remaining(envelope, c.headers)
		require.Equal(t, []any{c.want, !c.unknown}, []any{got, ok}, name)
	}
	envelope.Delay = time.Second // a tick that was rounded up
	got, ok := rules.Remaining(envelope, amqp091.Table{"x-death": []any{death("p.4", "expired")}})
	require.Equal(t, []any{time.Duration(0), true}, []any{got, ok})

	rules.Own = WhenDue
	got, ok = rules.Remaining(envelope, nil)
	require.Equal(t, []any{time.Duration(0), true}, []any{got, ok})
	_, ok = rules.Remaining(envelope, amqp091.Table{message.Stamp: amqp091.Table{}})
	require.False(t, ok)
	got, _ = rules.Remaining(envelope, amqp091.Table{"x-death": []any{death("p.other", "expired")}})
	require.Equal(t, time.Second, got)
}

// TestTTLs_OfOthers: the tiers of Delayers of a prefix may differ, and any of them may move what is
// misrouted.
func TestTTLs_OfOthers(t *testing.T) {
	plan := topology.Plan{Queues: []topology.Queue{
		objects.WaitingQueue("1m.1m.queue", delayer.Quorum, time.Minute, "x"), objects.WaitingQueue("p.wait.1s", delayer.Classic, time.Second, "x"),
		objects.WaitingQueue("p.Q3", delayer.Classic, 8*time.Second, "x"),
	}}
	ttl := TTLs("p", plan)
	for queue, want := range map[string]time.Duration{
		"1m.1m.queue": time.Minute, "1m.1h30m.queue": 90 * time.Minute, "p.wait.250ms": 250 * time.Millisecond, "p.Q3": 8 * time.Second,
		"p.Q4": 0, "1h.1m.queue": 0, "1m.60s.queue": 0, "1m.queue": 0, "p.wait.": 0, "p.wait.-1s": 0, "p.wait.0s": 0, "other": 0,
	} {
		got, ok := ttl(queue)
		require.Equal(t, []any{want, want > 0}, []any{got, ok}, queue)
	}
}

// TestRemaining_DeliveredByPlugin: what has 32 bits is the plugin's, also where it has wrapped
// around.
func TestRemaining_DeliveredByPlugin(t *testing.T) {
	for value, want := range map[any]bool{
		int32(-5000): true, int32(1702967295): true, int64(-2592000000): true, int64(2592000001): false, nil: false, "-5": false,
	} {
		remaining, ok := Rules{}.Remaining(message.Envelope{Delay: time.Second}, amqp091.Table{"x-delay": value})
		require.True(t, ok)
		require.Equal(t, want, remaining == 0, "%T %v", value, value)
	}
}
