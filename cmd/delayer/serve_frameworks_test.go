package main

import (
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// A framework is what one of those that are not run here does with the plugin, as its source says:
// what it declares and binds, in that order, and where it publishes what is to come after a second.
type framework struct {
	name     string
	does     []any // of exchange, queue, and bind
	exchange string
	key      string
	delay    any    // of x-delay; nil: it does not need the plugin
	queue    string // where the message arrives
}

type (
	exchange struct {
		name, kind, delayed string
		passive             bool
	}
	queue struct {
		name string
		args amqp091.Table
	}
	bind struct{ from, key, exchange, queue string } // to one of both
)

const plugins = "x-delayed-message"

var frameworks = []framework{
	{
		// RabbitAdmin.declareExchanges and declareQueues, spring-amqp of August 2026.
		name:     "Spring AMQP",
		does:     []any{exchange{"shop", plugins, "topic", false}, queue{"expired", nil}, bind{"shop", "order.expired", "", "expired"}},
		exchange: "shop", key: "order.expired", delay: int64(1000), queue: "expired",
	}, {
		// The receive endpoint, then RabbitMqEndpointAddress.GetDelaySettings, MassTransit of February
		// 2026.
		name: "MassTransit",
		does: []any{
			exchange{"orders", "fanout", "", false}, queue{"orders", nil}, bind{"orders", "", "", "orders"},
			exchange{"orders_delay", plugins, "fanout", false}, exchange{"orders", "fanout", "", false}, bind{"orders_delay", "", "orders", ""},
		},
		exchange: "orders_delay", delay: int64(1000), queue: "orders",
	}, {
		// SubscribeAsync, then DelayedExchangeScheduler.FuturePublishAsync, EasyNetQ of July 2026.
		name: "EasyNetQ",
		does: []any{
			exchange{"Order", "topic", "", false}, queue{"Order_billing", nil}, bind{"Order", "#", "", "Order_billing"},
			exchange{"Order_delayed", plugins, "direct", false}, exchange{"Order", "topic", "", false}, bind{"Order_delayed", "", "Order", ""},
		},
		exchange: "Order_delayed", delay: int32(1000), queue: "Order_billing",
	}, {
		// RabbitMqTransport and its DelayedMessageExchangeTransportDecorator, Rebus.RabbitMq of October
		// 2025. It looks for the queue and the exchange before it first sends.
		name: "Rebus",
		does: []any{
			exchange{"RebusDirect", "direct", "", false}, exchange{"RebusTopics", "topic", "", false},
			queue{"billing", nil}, bind{"RebusDirect", "billing", "", "billing"},
			exchange{"RebusDelayed", plugins, "direct", false},
			exchange{"RebusDelayed", "direct", "", true}, bind{"RebusDelayed", "billing", "", "billing"},
		},
		exchange: "RebusDelayed", key: "billing", delay: "1000", queue: "billing",
	}, {
		// RabbitMQQueue.laterRaw, laravel-queue-rabbitmq of May 2026.
		name: "Laravel",
		does: []any{queue{"default", nil}, queue{"default.delay.1000", amqp091.Table{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "default", "x-message-ttl": int32(1000), "x-expires": int32(60_000),
		}}},
		key: "default.delay.1000", queue: "default",
	},
}

func (f framework) do(t *testing.T, ch *amqp091.Channel) {
	t.Helper()
	for _, does := range f.does {
		var err error
		switch d := does.(type) {
		case exchange:
			var args amqp091.Table
			if d.delayed != "" {
				args = amqp091.Table{"x-delayed-type": d.delayed}
			}
			declare := ch.ExchangeDeclare
			if d.passive {
				declare = ch.ExchangeDeclarePassive
			}
			err = declare(d.name, d.kind, true, false, false, false, args)
		case queue:
			_, err = ch.QueueDeclare(d.name, true, false, false, false, d.args)
		case bind:
			if d.queue != "" {
				err = ch.QueueBind(d.queue, d.key, d.from, false, nil)
			} else {
				err = ch.ExchangeBind(d.exchange, d.key, d.from, false, nil)
			}
		}
		require.NoError(t, err, "%+v", does)
	}
}

// TestServe_Frameworks: what frameworks declare and publish that are not run here arrives through the
// proxy once, when it is due. What they declare afterwards, at their next start, is there.
func TestServe_Frameworks(t *testing.T) {
	t.Parallel()
	url := vhost(t, rabbittest.Broker(t))
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+
		"serve: {amqp: {listen: 127.0.0.1:0}}\n", url, rabbittest.Prefix(t))))
	url = throughProxy(t, s, url)
	for _, f := range frameworks {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			ch := channel(t, url)
			f.do(t, ch)
			in, err := ch.Consume(f.queue, "", true, false, false, false, nil)
			require.NoError(t, err)
			require.NoError(t, ch.Confirm(false))

			began := time.Now()
			for _, body := range []string{"later", "later still"} {
				m := amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte(body)}
				if f.delay != nil {
					m.Headers = amqp091.Table{"x-delay": f.delay, "mine": "kept"}
				}
				confirm, err := ch.PublishWithDeferredConfirm(f.exchange, f.key, false, false, m)
				require.NoError(t, err)
				require.True(t, confirm.Wait())
				f.do(t, ch)
			}
			for _, body := range []string{"later", "later still"} {
				d := rabbittest.Next(t, in)
				assert.GreaterOrEqual(t, time.Since(began), time.Second, "early")
				assert.Equal(t, body, string(d.Body))
				if f.delay != nil {
					assert.Equal(t, f.key, d.RoutingKey)
					assert.Equal(t, "kept", d.Headers["mine"])
					assert.NotContains(t, d.Headers, "x-delay")
					assert.Contains(t, d.Headers, delayer.Header)
				}
			}
		})
	}
}
