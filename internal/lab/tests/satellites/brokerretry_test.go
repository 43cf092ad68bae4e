package satellites_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

const (
	retryMin   = 300 * time.Millisecond
	retryMax   = 600 * time.Millisecond
	retryLimit = 4
)

// A brokerRetry has a queue whose messages the broker itself delays when they fail.
type brokerRetry struct {
	*rabbittest.Rig
	work, parked string
	ch           *amqp091.Channel // of in
	in           <-chan amqp091.Delivery
}

// newBrokerRetry declares the queues of the recipe of docs/retries.md, with short times, and
// consumes.
func newBrokerRetry(t *testing.T, kind string) *brokerRetry {
	r := &brokerRetry{Rig: rabbittest.NewRig(t, rabbittest.NeedSeries(t, 4, 3))}
	r.parked = r.Queue("parked", amqp091.Table{"x-queue-type": "quorum"})
	r.work = r.Queue("work", amqp091.Table{
		"x-queue-type":              "quorum",
		"x-delayed-retry-type":      kind,
		"x-delayed-retry-min":       retryMin.Milliseconds(),
		"x-delayed-retry-max":       retryMax.Milliseconds(),
		"x-delivery-limit":          int64(retryLimit),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": r.parked,
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	})
	r.consume()
	return r
}

func (r *brokerRetry) consume() {
	r.Helper()
	const prefetch, autoAck, exclusive, noLocal, noWait = 10, false, false, false, false
	r.ch = r.Channel()
	require.NoError(r, r.ch.Qos(prefetch, 0, false))
	in, err := r.ch.Consume(r.work, "", autoAck, exclusive, noLocal, noWait, nil)
	require.NoError(r, err)
	r.in = in
}

// next is the next delivery, which must not come before a wait from then is over.
func (r *brokerRetry) next(wait time.Duration, from time.Time) amqp091.Delivery {
	r.Helper()
	d := rabbittest.Next(r.TB, r.in)
	require.GreaterOrEqual(r, time.Since(from), wait)
	return d
}

// TestBrokerRetry_Reject: a rejected message waits for the minimum times its deliveries, at most
// for the maximum, and is parked beyond the limit.
func TestBrokerRetry_Reject(t *testing.T) {
	t.Parallel()
	r := newBrokerRetry(t, "failed")
	r.Publish("", r.work, amqp091.Publishing{MessageId: "order 42"})
	var rejected time.Time
	for deliveries := range retryLimit + 1 {
		d := r.next(min(time.Duration(deliveries)*retryMin, retryMax), rejected)
		if deliveries > 0 {
			require.EqualValues(t, deliveries, d.Headers["x-delivery-count"])
		}
		rejected = time.Now()
		require.NoError(t, d.Reject(true))
	}
	d := r.Take(r.parked)
	require.Equal(t, []any{"order 42", "delivery_limit"}, []any{d.MessageId, d.Headers["x-first-death-reason"]})
}

// TestBrokerRetry_Nack: a nack is not counted, so it never ends. It waits for the minimum each
// time, or not at all with the type failed.
func TestBrokerRetry_Nack(t *testing.T) {
	t.Parallel()
	for kind, wait := range map[string]time.Duration{"failed": 0, "all": retryMin, "returned": retryMin} {
		t.Run(kind, func(t *testing.T) {
			r := newBrokerRetry(t, kind)
			r.Publish("", r.work, amqp091.Publishing{MessageId: "order 42"})
			var given time.Time
			for deliveries := range 2 * retryLimit {
				d := r.next(0, given)
				if deliveries > 0 {
					require.GreaterOrEqual(t, time.Since(given), wait)
				}
				require.NotContains(t, d.Headers, "x-delivery-count")
				given = time.Now()
				const multiple, requeue = false, true
				require.NoError(t, d.Nack(multiple, requeue))
			}
			require.Zero(t, r.Count(r.parked))
		})
	}
}

// TestBrokerRetry_ClosedChannel: all that was prefetched has failed once, also what no handler has
// seen.
func TestBrokerRetry_ClosedChannel(t *testing.T) {
	t.Parallel()
	r := newBrokerRetry(t, "failed")
	const messages = 3
	for range messages {
		r.Publish("", r.work, amqp091.Publishing{})
	}
	for range messages {
		r.next(0, time.Time{})
	}
	closed := time.Now()
	require.NoError(t, r.ch.Close())
	r.consume()
	for range messages {
		require.EqualValues(t, 1, r.next(retryMin, closed).Headers["x-delivery-count"])
	}
}

// TestBrokerRetry_Page: the page's recipe has the arguments that are tried here.
func TestBrokerRetry_Page(t *testing.T) {
	argument := regexp.MustCompile(`(?m)^\t+"(x-[a-z-]+)":`)
	named := func(text string) (names []string) {
		for _, m := range argument.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		return names
	}
	page, err := os.ReadFile("../../../../docs/retries.md")
	require.NoError(t, err)
	source, err := os.ReadFile("brokerretry_test.go")
	require.NoError(t, err)
	_, recipe, _ := strings.Cut(string(page), "## Retries by the broker itself")
	require.NotEmpty(t, named(recipe))
	require.Equal(t, named(string(source)), named(recipe))
}
