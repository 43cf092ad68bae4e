package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkServe_Proxy publishes messages of 200 bytes without a delay to a classic queue, a hundred
// unconfirmed at a time: straight to the broker and through the proxy, in turn for a second each.
func BenchmarkServe_Proxy(b *testing.B) {
	url, prefix := rabbittest.Broker(b).URL(), rabbittest.Prefix(b)
	s := serve(b, "serve", "--config", configFile(b, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+"serve: {amqp: {listen: 127.0.0.1:0}}\n", url, prefix)))
	channels := map[string]*amqp091.Channel{"direct": channel(b, url), "proxy": channel(b, throughProxy(b, s, url))}
	for _, ch := range channels {
		require.NoError(b, ch.Confirm(false))
	}
	queue := prefix + "-queue"
	_, err := channels["direct"].QueueDeclare(queue, true, true, false, false, amqp091.Table{"x-max-length": int64(1000)})
	require.NoError(b, err)
	require.NoError(b, channels["direct"].ExchangeDeclare(prefix, "direct", false, true, false, false, nil))
	require.NoError(b, channels["direct"].QueueBind(queue, "key", prefix, false, nil))
	const unconfirmed, stretch = 100, time.Second
	sent, late := map[string]int{}, map[string][]time.Duration{}
	var spent time.Duration
	for b.Loop() {
		for _, how := range []string{"direct", "proxy"} {
			ch := channels[how]
			var waiting []func()
			for began := time.Now(); time.Since(began) < stretch; {
				at := time.Now()
				confirm, err := ch.PublishWithDeferredConfirm(prefix, "key", false, false, amqp091.Publishing{Body: make([]byte, 200)})
				require.NoError(b, err)
				waiting = append(waiting, func() {
					confirm.Wait()
					late[how] = append(late[how], time.Since(at))
				})
				if len(waiting) == unconfirmed {
					waiting[0]()
					waiting = waiting[1:]
				}
				sent[how]++
			}
			for _, wait := range waiting {
				wait()
			}
		}
		spent += stretch
	}
	for how, n := range sent {
		slices.Sort(late[how])
		b.ReportMetric(float64(n)/spent.Seconds(), how+"-msgs/s")
		b.ReportMetric(float64(late[how][len(late[how])*99/100].Microseconds())/1000, how+"-p99-ms")
	}
}
