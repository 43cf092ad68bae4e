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
