package page

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer/internal/app/retries"
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
	w.tells.retried = retried{More: 3, Queues: []retries.Queue{
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

func TestTallies(t *testing.T) {
	counts := map[string]int{"c": 1, "b": 4000, "a": 1}
	list, more := tallies(counts, 2)
	assert.Equal(t, []tally{{"b", 4000, 1000}, {"a", 1, 4}}, list)
	assert.Equal(t, 1, more)
	list, _ = tallies(nil, 2)
	assert.Empty(t, list)
}
