package main

import (
	"fmt"
	"net"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestServe_Proxy(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	url, prefix := vhost(t, b), rabbittest.Prefix(t)
	config := configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+"serve: {amqp: {listen: 127.0.0.1:0}}\n", url, prefix))
	s := serve(t, "serve", "--config", config)
	at, err := amqp091.ParseURI(url)
	require.NoError(t, err)
	at.Host, at.Port = "127.0.0.1", s.amqpPort(t)
	ch := channel(t, at.String())
	in := consume(t, ch, "queue")
	require.NoError(t, ch.ExchangeDeclare("orders", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "direct"}))
	require.NoError(t, ch.QueueBind("queue", "key", "orders", false, nil))
	require.NoError(t, ch.Confirm(false))
	began := time.Now()
	for _, id := range []string{"later", "now"} {
		headers := amqp091.Table{"mine": "kept"}
		if id == "later" {
			headers["x-delay"] = int32(1500)
		}
		confirm, err := ch.PublishWithDeferredConfirm("orders", "key", false, false, amqp091.Publishing{MessageId: id, Headers: headers, Body: make([]byte, 300_000)})
		require.NoError(t, err)
		require.True(t, confirm.Wait())
	}
	require.Equal(t, "now", rabbittest.Next(t, in).MessageId)
	d := rabbittest.Next(t, in)
	require.Equal(t, "later", d.MessageId)
	assert.GreaterOrEqual(t, time.Since(began), 1500*time.Millisecond)
	assert.Equal(t, "kept", d.Headers["mine"])
	assert.NotContains(t, d.Headers, "x-delay")
	s.eventually(t, `delayer_proxy_total{action="diverted"} 1`)
	s.eventually(t, `delayer_proxy_total{action="passed"} 1`)
	s.eventually(t, `delayer_proxy_connections 1`)
	require.Equal(t, exitOK, s.stop())
}

// amqpPort waits for the proxy.
func (s runningService) amqpPort(t *testing.T) int {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", rabbittest.Next(t, s.amqp))
	require.NoError(t, err)
	return at.Port
}
