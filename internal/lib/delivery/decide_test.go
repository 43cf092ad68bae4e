package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

func TestDecide(t *testing.T) {
	due := facts{ours: true, known: true}
	with := func(change func(*facts)) facts {
		f := due
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		facts facts
		want  action
	}{
		"not ours":                      {facts{came: live}, keep},
		"to an object of ours":          {with(func(f *facts) { f.reserved, f.came = true, live }), keep},
		"remaining not known":           {with(func(f *facts) { f.known, f.came = false, live }), keep},
		"something remains":             {with(func(f *facts) { f.remaining = 1 }), wait},
		"something remains, live":       {with(func(f *facts) { f.remaining, f.came = 1, live }), wait},
		"due, came live":                {with(func(f *facts) { f.came = live }), send},
		"due, in an outage, vouched":    {with(func(f *facts) { f.came, f.vouched = outage, true }), send},
		"due, in an outage":             {with(func(f *facts) { f.came = outage }), keep},
		"due, before":                   {due, keep},
		"due, before, though vouched":   {with(func(f *facts) { f.vouched = true }), keep},
		"delivered before":              {with(func(f *facts) { f.delivered, f.came = true, live }), keep},
		"delivered before, by a clock":  {with(func(f *facts) { f.delivered, f.remaining = true, 1 }), keep},
		"to an object of ours, waiting": {with(func(f *facts) { f.reserved, f.remaining = true, 1 }), keep},
	} {
		require.Equal(t, c.want, decide(c.facts), name)
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
	rules := Rules{TTL: TTLs(plan)}
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
	ttl := TTLs(plan)
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

func TestPausesGrow(t *testing.T) {
	var got []time.Duration
	for n := range 9 {
		got = append(got, pauseFor(n)/time.Second)
	}
	require.Equal(t, []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60}, got)
	require.Equal(t, longestPause, pauseFor(1000))
}

func TestTally_ForgetsTheOldest(t *testing.T) {
	tally := newTally(3)
	for range 2 {
		for i := range 3 {
			tally.add(fmt.Sprint(i))
		}
	}
	require.Equal(t, 2, tally.add("0"))
	require.Equal(t, 0, tally.add("3")) // and "0", the oldest, is forgotten
	require.Equal(t, 0, tally.add("0"))
	require.Len(t, tally.counts, 3)
}

// TestTries: what certainly left nothing is tried for a minute; what may have left a copy, twice.
func TestTries(t *testing.T) {
	count := func(f failure) (attempts int, took time.Duration) {
		var tries tries
		for attempts = 1; attempts < 100; attempts++ {
			pause, over := tries.note(f)
			took += pause
			if over {
				break
			}
		}
		return attempts, took
	}
	for f, want := range map[failure]struct {
		attempts int
		took     time.Duration
	}{
		refused: {6, 63 * time.Second},
		unsure:  {2, 61 * time.Second},
	} {
		attempts, took := count(f)
		require.Equal(t, want.attempts, attempts)
		require.Equal(t, want.took, took)
	}
	attempts, _ := count(transient)
	require.Equal(t, 100, attempts, "for as long as it lasts")
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		require.False(t, r.fresh("q"))
		r.note("q")
		require.True(t, r.fresh("q"))
		require.False(t, r.fresh("other"))
		time.Sleep(longestPause)
		require.False(t, r.fresh("q"))
	})
}
