package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// An answer is what becomes of a message: it arrives after a delay, or is parked for a reason.
type answer struct {
	headers amqp091.Table
	after   time.Duration
	parked  string // part of the reason, or ""
}

// answers are to messages to an entry that lets publishers choose an exchange whose name begins
// with to. Each has the header that names to.there, unless it has another.
func answers() map[string]answer {
	type table = amqp091.Table
	x := func(value any, after time.Duration, parked string) answer {
		return answer{table{"x-delay": value}, after, parked}
	}
	to := func(exchange any, parked string) answer {
		return answer{table{"x-delay": int32(100), "x-delayer-exchange": exchange}, 0, parked}
	}
	deep := any("bottom")
	for range 40 {
		deep = []any{deep}
	}
	full := table{"x-delay": "soon", "text": strings.Repeat("x", 130_700)}
	const asItIs = "no x-delayer-retry header" // the broker moved it; the reason is in the log
	const tenth = 100 * time.Millisecond
	return map[string]answer{
		"bool":          x(true, 0, "header x-delay is a boolean"),
		"int32":         x(int32(100), tenth, ""),
		"float":         x(float32(99.5), tenth, ""),
		"void":          x(nil, 0, ""),
		"negative":      x(int32(-100), 0, ""),
		"decimal":       x(amqp091.Decimal{Scale: 1, Value: 1000}, 0, "header x-delay is a decimal"),
		"words":         x("soon", 0, `"soon"`),
		"not UTF-8":     x("\xff", 0, "header x-delay is"),
		"two":           {table{"x-delay": int32(1), "x-delayer-delay": "1s"}, 0, "it has two of the headers"},
		"nowhere":       to(nil, "does not name an exchange"),
		"not allowed":   to("amq.topic", `exchange "amq.topic" is not allowed`),
		"another entry": to("to.other", `exchange "to.other" is not allowed`),
		"gone":          to("to.gone", "to.gone"),
		"gone at once":  {table{"x-delayer-exchange": "to.gone"}, 0, "to.gone"},
		"deep":          {table{"x-delay": int32(100), "deep": deep}, 0, asItIs},
		"wide":          {table{"wide": make([]any, 9000)}, 0, asItIs},
		"full":          {full, 0, asItIs},
	}
}

// TestServe_BadInput: whatever a publisher writes is delivered as it asks for or parked with a
// reason, and the messages of others pass.
func TestServe_BadInput(t *testing.T) {
	t.Parallel()
	url, prefix := vhost(t, rabbittest.Broker(t)), rabbittest.Prefix(t)
	config := configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+
		"serve: {prefetch: 3, exchanges: [{name: to.entry, allow: ['to.*']}, {name: to.other, to: to.there}]}\n", url, prefix))
	s := serve(t, "serve", "--config", config)
	declared(t, url, "to.there")
	ch := channel(t, url)
	in := consume(t, ch, "queue")
	require.NoError(t, ch.QueueBind("queue", "#", "to.there", false, nil))
	require.NoError(t, ch.Confirm(false))

	all, published := answers(), map[string]time.Time{}
	publish := func(id string, headers amqp091.Table) {
		t.Helper()
		if _, is := headers["x-delayer-exchange"]; !is {
			headers["x-delayer-exchange"] = "to.there"
		}
		published[id] = time.Now()
		confirm, err := ch.PublishWithDeferredConfirm("to.entry", "key", true, false, amqp091.Publishing{MessageId: id, Headers: headers})
		require.NoError(t, err)
		require.True(t, confirm.Wait(), id)
	}
	delivered := map[string]bool{"last": true}
	parked := map[string]string{}
	for id, a := range all {
		publish(id, a.headers)
		if a.parked == "" {
			delivered[id] = true
		} else {
			parked[id] = a.parked
		}
	}
	publish("last", amqp091.Table{})
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} { // Erlang has no such numbers
		ch := channel(t, url)
		require.NoError(t, ch.Confirm(false))
		confirm, err := ch.PublishWithDeferredConfirm("to.entry", "key", true, false, amqp091.Publishing{Headers: amqp091.Table{"x-delay": f}})
		require.NoError(t, err)
		assert.False(t, confirm.Wait(), "%v: the broker refuses it", f)
	}
	for len(delivered) > 0 {
		d := rabbittest.Next(t, in)
		assert.True(t, delivered[d.MessageId], "%q was not asked for, or came twice", d.MessageId)
		delete(delivered, d.MessageId)
		assert.GreaterOrEqual(t, time.Since(published[d.MessageId]), all[d.MessageId].after, "%q is early", d.MessageId)
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		q, err := ch.QueueDeclarePassive(prefix+".serve.parked.to.entry", true, false, false, false, nil)
		require.NoError(t, err)
		assert.Equal(t, len(parked), q.Messages)
	}, time.Minute, 50*time.Millisecond)
	status, list, errs := command(t.Context(), t, "messages", "list", prefix+".serve.parked.to.entry", "--config", config, "--output", "json")
	require.Equal(t, exitOK, status, errs)
	var found struct {
		Messages []struct {
			ID  string `json:"message_id"`
			Why string `json:"why"`
		} `json:"messages"`
	}
	require.NoError(t, json.Unmarshal([]byte(list), &found))
	for _, m := range found.Messages {
		assert.Contains(t, m.Why, parked[m.ID], m.ID)
		delete(parked, m.ID)
	}
	assert.Empty(t, parked)

	// What a retry can send is parked for the same reason once more. What the broker moved as it is
	// stays.
	queue := prefix + ".serve.parked.to.entry"
	status, list, errs = command(t.Context(), t, "messages", "retry", queue, "--config", config)
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, errs, "3 messages stay: mend what is named above")
	assert.Regexp(t, `3 +stay +.*it has no header x-delayer-retry, so it is not known where it was read: export and purge it`, list)
	publish("after the retry", amqp091.Table{})
	require.Equal(t, "after the retry", rabbittest.Next(t, in).MessageId)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		require.NoError(t, err)
		assert.Equal(t, len(found.Messages), q.Messages)
	}, time.Minute, 50*time.Millisecond)
	status, list, errs = command(t.Context(), t, "messages", "list", queue, "--config", config)
	require.Equal(t, exitOK, status, errs)
	for _, id := range []string{"deep", "wide", "full", "words"} {
		assert.Contains(t, list, id)
	}
	require.Equal(t, exitOK, s.stop())
}
