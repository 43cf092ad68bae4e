package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tells is what the broker tells of retries.
type tells struct {
	retried retried
	err     error
}

func (w *site) retried(now func() time.Time) *Retries {
	r := newRetries(true, func(context.Context, retried) (retried, error) { return w.tells.retried, w.tells.err }, now)
	w.Cleanup(r.Close)
	return r
}

func TestRetries(t *testing.T) {
	w := newSite(t, undeliveredSample(), "")
	assert.Contains(t, w.body("/page/retries"), "No queue of parked messages is known")

	ended, rate := 98765, 1.25
	w.at = w.at.Add(time.Minute)
	long := strings.Repeat("ü", 127) + "/"
	w.tells.retried = retried{More: 3, Queues: []retryQueue{
		{Name: "delayer" + evil, Parked: "delayer" + evil + ".parked", There: true, Ready: 1, Handling: 2, Workers: 3, Given: 4, Ended: &ended, Rate: &rate},
		{Name: long, Parked: long + ".parked", There: true, Ready: 7},
		{Name: "遅延", Parked: "遅延.parked"},
	}}
	text := w.body("/page/retries")
	for _, want := range []string{"98,765", ">1.25<", "nobody consumes it", "there is no such queue", "遅延", "3 more, with fewer", "delayer_retry_attempts_total"} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "<script>", "all but the page's own is text")
	assert.Contains(t, text, "/page/retries/parked?queue=delayer%3cscript%3e", "it is escaped")

	w.put("a", "", nil)
	w.put("b", "", nil)
	w.put(evil, "", nil)
	w.heap[1].Attempts, w.heap[0].Attempts = "4 attempts", "4 attempts"
	w.heap[1].Since = asked.Add(-time.Hour)
	text = w.body("/page/retries/parked?queue=" + url.QueryEscape("delayer.parked"))
	for _, want := range []string{"3 messages given up", "4 attempts", `<td class="number">2</td>`, `width="1000"`, `width="500"`, "1h 1m ago"} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "<script>")
	assert.Contains(t, w.ask("GET", "/page/retries/parked?queue=orders", nil).Body.String(), "no queue of that name")

	w.at, w.tells.err = w.at.Add(time.Minute), context.DeadlineExceeded
	text = w.body("/page/retries")
	assert.Contains(t, text, "The broker does not answer.")
	assert.Contains(t, text, "98,765")
}

func TestPick(t *testing.T) {
	list, more := pick([]parkedQueue{{"b.parked", 1}, {"a.parked", 1}, {"c.parked", 9}, {".parked", 3}, {"x.parked.y", 3}, {"p.serve.parked.x.parked", 3}}, "p")
	require.Zero(t, more)
	require.Equal(t, []retryQueue{{Name: "c", Parked: "c.parked", Given: 9}, {Name: "a", Parked: "a.parked", Given: 1}, {Name: "b", Parked: "b.parked", Given: 1}}, list)

	var many []parkedQueue
	for i := range mostRetried + 3 {
		many = append(many, parkedQueue{fmt.Sprintf("%d.parked", i), i})
	}
	list, more = pick(many, "p")
	require.Len(t, list, mostRetried)
	require.Equal(t, 3, more)
	require.Equal(t, mostRetried+2, list[0].Given)
}

// TestAdd: what the broker does not count is not zero.
func TestAdd(t *testing.T) {
	var q retryQueue
	var c counted
	require.NoError(t, json.Unmarshal([]byte(`{"messages_ready":1,"messages_unacknowledged":2,"consumers":3}`), &c))
	q.add(c)
	require.Equal(t, retryQueue{There: true, Ready: 1, Handling: 2, Workers: 3}, q)
	require.NoError(t, json.Unmarshal([]byte(`{"message_stats":{"ack":7,"ack_details":{"rate":0.4}}}`), &c))
	q.add(c)
	require.Equal(t, 7, *q.Ended)
	require.InDelta(t, 0.4, *q.Rate, 0)
}
