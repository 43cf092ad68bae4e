package backend_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// BenchmarkHop shows what one delay in one queue costs the broker, and what of it changes that: one
// thing at a time, beside the reference. Read broker-µs/msg and how late they are: go test -bench
// 'BenchmarkHop$' -benchtime 6000x.
func BenchmarkHop(b *testing.B) {
	for _, c := range []struct {
		what   string
		change func(h *hop)
	}{
		{"reference", func(*hop) {}},
		{"undelayed", func(h *hop) { h.waiting = "" }},
		{"undelayed, quorum destination", func(h *hop) { h.waiting, h.destination = "", delayer.Quorum }},
		{"fixedtiers", func(h *hop) { h.tier = true }},
		{"quorum destination", func(h *hop) { h.destination = delayer.Quorum }},
		{"at most once", func(h *hop) { h.strategy = "at-most-once" }},
		{"classic waiting queue", func(h *hop) { h.waiting = delayer.Classic }},
		{"ten at a time", func(h *hop) { h.together = 10 }},
		{"a hundred at a time", func(h *hop) { h.together = 100 }},
		{"a hundred at a time, undelayed", func(h *hop) { h.waiting, h.together = "", 100 }},
		{"headers of 1 KiB", func(h *hop) { h.header = 1 << 10 }},
		{"body of 1 KiB", func(h *hop) { h.body = 1 << 10 }},
		{"body of 16 KiB", func(h *hop) { h.body = 16 << 10 }},
		{"topic exchange", func(h *hop) { h.exchange = "topic" }},
		{"fanout exchange", func(h *hop) { h.exchange = "fanout" }},
		{"headers exchange", func(h *hop) { h.exchange = "headers" }},
		{"topic exchange, 1000 bindings", func(h *hop) { h.exchange, h.bindings = "topic", 1000 }},
		{"direct exchange, 1000 bindings", func(h *hop) { h.bindings = 1000 }},
		{"500 a second", func(h *hop) { h.rate = 500 }},
		{"as fast as confirmed", func(h *hop) { h.rate = 0 }},
	} {
		b.Run(c.what, func(b *testing.B) {
			h := reference()
			c.change(&h)
			h.run(b, rabbittest.Broker(b))
		})
	}
}

// BenchmarkOneQueue shows how many messages a second one waiting queue takes: go test -bench
// OneQueue -benchtime 60000x. Prefetch is how many messages the broker's dead-letter worker takes
// before their destination has them.
func BenchmarkOneQueue(b *testing.B) {
	if testing.Short() {
		b.Skip("BenchmarkHop keeps this alive")
	}
	for _, prefetch := range []int{32, 256} { // 32 unless set
		b.Run(fmt.Sprintf("prefetch=%d", prefetch), func(b *testing.B) {
			node := rabbittest.Own(b, rabbit.Options{Args: fmt.Sprintf("-rabbit dead_letter_worker_consumer_prefetch %d", prefetch)})
			for _, rate := range []int{4000, 6000, 8000, 10000} {
				b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
					h := reference()
					h.rate = rate
					h.run(b, node)
				})
			}
		})
	}
}

// BenchmarkQuorumHop shows what one quorum queue costs the broker by itself, without a delay.
// Nothing that keeps messages in a quorum queue on their way can cost less. The rate decides most
// of it: what comes at one time is written to the log together. Read broker-µs/msg: go test -bench
// QuorumHop -benchtime 12000x.
func BenchmarkQuorumHop(b *testing.B) {
	for _, rate := range []int{2000, 4000, 0} {
		name := fmt.Sprintf("rate=%d", rate)
		if rate == 0 {
			name = "rate=unlimited"
		}
		b.Run(name, func(b *testing.B) {
			hop{rate: rate, together: 1, destination: delayer.Quorum, body: 64}.run(b, rabbittest.Broker(b))
		})
	}
}

// A hop is the way of a benchmark's messages: through a waiting queue and a dead-letter exchange, or
// without, to a queue of which they are consumed.
type hop struct {
	rate        int               // a second; as fast as confirmed if it is 0
	together    int               // how many are written at one time
	waiting     delayer.QueueType // the queue where they wait, or none
	strategy    string            // how that dead-letters
	exchange    string            // the type of the dead-letter exchange
	bindings    int               // more at that exchange, for other keys
	destination delayer.QueueType
	tier        bool // by backend fixedtiers instead
	body        int  // bytes
	header      int  // bytes of a further header
}

func reference() hop {
	return hop{
		rate: 2000, together: 2, body: 100,
		waiting: delayer.Quorum, strategy: "at-least-once", exchange: "direct", destination: delayer.Classic,
	}
}

const waits = time.Second

// run sends b.N messages on their way, and acknowledges together what has come within 10 ms.
func (h hop) run(b *testing.B, node *rabbit.Broker) {
	if !node.Owned() {
		rabbittest.Skipf(b, "the broker is not ours to measure")
	}
	r := rabbittest.NewRig(b, node)
	queue := r.Queue("to", amqp091.Table{"x-queue-type": string(h.destination)})
	in := r.Channel()
	require.NoError(b, in.Qos(1000, 0, false))
	deliveries, err := in.Consume(queue, "", false, false, false, false, nil)
	require.NoError(b, err)
	publish := h.publisher(r, queue)
	require.NoError(b, publish()) // what is declared at first use, is
	first := <-deliveries
	require.NoError(b, first.Ack(false))

	before, err := node.CPU()
	require.NoError(b, err)
	b.ResetTimer()
	var all errgroup.Group
	all.Go(func() error { return h.publishAll(publish, b.N) })
	acknowledge := time.NewTicker(10 * time.Millisecond)
	defer acknowledge.Stop()
	late := make([]time.Duration, 0, b.N)
	for tag := uint64(0); len(late) < b.N || tag != 0; {
		select {
		case d := <-deliveries:
			late, tag = append(late, time.Since(due(d.Body))), d.DeliveryTag
		case <-acknowledge.C:
			if tag != 0 {
				require.NoError(b, in.Ack(tag, true))
				tag = 0
			}
		}
	}
	b.StopTimer()
	require.NoError(b, all.Wait())
	after, err := node.CPU()
	require.NoError(b, err)
	slices.Sort(late)
	b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "broker-µs/msg")
	b.ReportMetric(late[len(late)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(late[len(late)*99/100].Seconds()*1000, "p99-ms")
}

// publisher declares the way to a queue, and returns what publishes one message on it and waits for
// the confirm.
func (h hop) publisher(r *rabbittest.Rig, queue string) func() error {
	if h.tier {
		return h.byTier(r, queue)
	}
	first, delay, headers := queue, time.Duration(0), amqp091.Table{delayer.Header: "0123456789abcdef 1795234405786 "}
	if h.header > 0 {
		headers["further"] = strings.Repeat("x", h.header)
	}
	if h.waiting != "" {
		// Two keys, as a message of Delayer has them: that of the waiting queue, and that behind it.
		key := r.Prefix + ".key"
		headers["BCC"] = []any{key}
		first, delay = h.wait(r, key, queue), waits
	}
	ch := r.Channel()
	require.NoError(r, ch.Confirm(false))
	return func() error {
		confirm, err := ch.PublishWithDeferredConfirm("", first, true, false, amqp091.Publishing{
			DeliveryMode: amqp091.Persistent, Headers: headers, Body: bodyOf(h.body, delay),
		})
		if err == nil && !confirm.Wait() {
			err = delayer.ErrRefused
		}
		return err
	}
}

func (h hop) byTier(r *rabbittest.Rig, queue string) func() error {
	d := rabbittest.Open(r, backend.Config{
		Options: delayer.Options{URL: r.Broker.URL(), Prefix: r.Prefix, QueueType: h.waiting},
		Backend: fixedtiers.Name, FixedTiers: fixedtiers.Config{Prefix: r.Prefix, Tiers: []time.Duration{waits}},
	})
	return func() error {
		return d.Publish(r.Context(), "", queue, waits, amqp091.Publishing{Body: bodyOf(h.body, waits)})
	}
}

// wait declares a waiting queue, from which messages with a key go to another queue.
func (h hop) wait(r *rabbittest.Rig, key, queue string) (name string) {
	dead := r.Exchange("dead", h.exchange, nil)
	wait := objects.WaitingQueue(r.Prefix+"-wait", h.waiting, waits, dead)
	if h.waiting == delayer.Quorum {
		wait.Args["x-dead-letter-strategy"] = h.strategy
	}
	r.Declare(wait.Name, wait.Args)
	r.Bind(queue, key, dead, nil)
	for i := range h.bindings {
		r.Bind(queue, fmt.Sprintf("%s.%d", key, i), dead, nil)
	}
	return wait.Name
}

// publishAll leaves as many messages unconfirmed at a time as delayer-bench has publishers.
func (h hop) publishAll(publish func() error, n int) error {
	const unconfirmed = 256
	var confirms errgroup.Group
	confirms.SetLimit(unconfirmed)
	start := time.Now()
	for i := range n {
		if h.rate > 0 && i%h.together == 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(h.rate))))
		}
		confirms.Go(publish)
	}
	return confirms.Wait()
}

// bodyOf makes a body that says when its message is due.
func bodyOf(size int, delay time.Duration) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(delay).UnixNano())), make([]byte, size-8)...)
}

func due(body []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(body))) }
