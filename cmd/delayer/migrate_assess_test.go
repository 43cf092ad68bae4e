package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/assess"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMigrateAssess_Usage(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"--longest 1200h", exitUsage, "--longest: 50.0 days is no x-delay: those are whole milliseconds up to 49.7 days"},
		{"--finest 1us", exitUsage, "--finest: 1µs is no x-delay"},
		{"--output xml", exitUsage, `--output must be one of "text","json"`},
		{"", exitFailed, "delayer migrate assess: no broker"},
		{"--url amqp://u:p@h/", exitFailed, "delayer migrate assess: no management API: give --management"},
		{"--url amqp://u:p@h/ --management h:15672", exitFailed, "want http://user:password@host:15672"},
		{"--url amqp://u:hunter2@h/ --management http://u:hunter2@127.0.0.1:1", exitFailed, "is the management plugin enabled"},
	} {
		status, stdout, stderr := command(t.Context(), t, append([]string{"migrate", "assess"}, strings.Fields(c.args)...)...)
		require.Equal(t, c.status, status, c.args)
		require.Contains(t, stderr, c.says)
		require.NotContains(t, stderr, "hunter2")
		require.Empty(t, stdout)
	}
}

// TestMigrateAssess on a broker with the plugin: for people and for scripts, before and after
// something is in the way.
func TestMigrateAssess(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	if !b.HasPlugin(rabbittest.DelayedMessages) {
		rabbittest.Skipf(t, "the broker has no plugin %s", rabbittest.DelayedMessages)
	}
	address := vhost(t, b)
	assessment := func(args ...string) (status int, stdout, stderr string) {
		return command(t.Context(), t, append([]string{"migrate", "assess", "--url", address, "--management", b.Management()}, args...)...)
	}
	require.Eventually(t, func() bool { status, _, _ := assessment(); return status == exitOK }, time.Minute, 100*time.Millisecond)
	_, stdout, _ := assessment()
	require.Contains(t, stdout, "so there is nothing to migrate")

	ch := channel(t, address)
	require.NoError(t, ch.ExchangeDeclare("orders", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
	require.NoError(t, ch.Confirm(false))
	sent, err := ch.PublishWithDeferredConfirm("orders", "k", false, false, amqp091.Publishing{Headers: amqp091.Table{"x-delay": int32(90 * 60_000)}})
	require.NoError(t, err)
	require.True(t, sent.Wait())
	status, stdout, stderr := assessment("--rabbitmqctl", b.CtlCommand(), "--finest", "1.5s")
	require.Equal(t, exitOK, status, stderr)
	require.Regexp(t, `orders +topic +1 +`, stdout)
	require.Regexp(t, `the last message that waits now is due\s+in 1h`, stdout)
	require.Contains(t, stdout, "its tick is 1s: a delay of 1.5s becomes 2s")
	require.Contains(t, stdout, "best  backend: binaryladder and binaryladder: {tick: 1ms")
	require.Contains(t, stdout, "Nothing stands in the way. Next: delayer migrate prepare")

	require.NoError(t, ch.ExchangeDeclare("delayer.delivery", "fanout", true, false, false, false, nil))
	status, stdout, stderr = assessment("--output", "json")
	require.Equal(t, exitFailed, status)
	require.Equal(t, "delayer migrate assess: 1 obstacle in the way (each says what to do)\n", stderr)
	var a assess.Assessment
	require.NoError(t, json.Unmarshal([]byte(stdout), &a))
	require.False(t, a.Ready)
	require.Equal(t, assess.Blocker, a.Findings[0].Level)
	require.Equal(t, `exchange "delayer.delivery"`, a.Findings[0].About)

	status, _, stderr = assessment("--rabbitmqctl", "/no/such/rabbitmqctl")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "/no/such/rabbitmqctl")
}
