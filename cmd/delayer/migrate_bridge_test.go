package main

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMigrateBridge_UsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"migrate", "bridge"}, {"migrate", "bridge", "--exchange", ""}, {"migrate", "bridge", "--exchange", "x", "--prefetch", "0"},
	} {
		status, _, stderr := command(t.Context(), t, args...)
		assert.Equal(t, exitUsage, status, "%q: %s", args, stderr)
	}
}

func TestMigrateBridge(t *testing.T) {
	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	config := configFile(t, "url: "+url+"\nprefix: "+prefix+"\nbinaryladder: {tick: 20ms, steps: [20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1280ms, 2560ms]}\n")
	exchange, queue := prefix+"-x", prefix+"-q"
	args := []string{"migrate", "bridge", "--config", config, "--exchange", exchange}

	status, _, stderr := command(t.Context(), t, args...)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "delayer migrate switch")

	ch := channel(t, url)
	bridge, behind := record.Bridge(prefix, exchange), record.Behind(prefix, exchange)
	for name, kind := range map[string]string{exchange: "fanout", behind: "topic"} {
		require.NoError(t, ch.ExchangeDeclare(name, kind, true, false, false, false, nil))
	}
	_, err := ch.QueueDeclare(bridge, true, false, false, false, record.BridgeArguments(bridge))
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(bridge, "", exchange, false, nil))
	in := consume(t, ch, queue)
	require.NoError(t, ch.QueueBind(queue, "k", behind, false, nil))

	s := serve(t, args...)
	require.NoError(t, ch.Publish(exchange, "k", false, false, amqp091.Publishing{Body: []byte("at once")}))
	assert.Equal(t, "at once", string((<-in).Body))
	began := time.Now()
	require.NoError(t, ch.Publish(exchange, "k", false, false, amqp091.Publishing{
		Headers: amqp091.Table{"x-delay": int32(300)}, Body: []byte("late"),
	}))
	assert.Equal(t, "late", string((<-in).Body))
	assert.False(t, time.Since(began) < 300*time.Millisecond, "early")
	s.eventually(t, `delayer_bridge_messages_total{action="at_once"} 1`)
	s.eventually(t, `delayer_bridge_messages_total{action="delayed"} 1`)
	require.Equal(t, exitOK, s.stop())
}
