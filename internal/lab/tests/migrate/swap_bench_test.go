package migrate_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkSwitch switches an exchange with 201 bindings in place, and rolls back, twice, while
// three publishers do not pause and what waits in the plugin falls due, b.N messages, one every
// 3 ms. It reports what the publishers were told, and how many that fell due were lost. With
// rabbitmqctl none may be; nor, either way, may what was confirmed and not returned.
func BenchmarkSwitch(b *testing.B) {
	for how, onNode := range map[string]bool{"rabbitmqctl": true, "without": false} {
		for _, kind := range kinds {
			b.Run(how+"/"+kind, func(b *testing.B) { benchmarkSwitch(b, kind, onNode) })
		}
	}
}

func benchmarkSwitch(b *testing.B, kind string, onNode bool) {
	r := newSwapRig(b)
	if !r.delivers(kind) {
		b.Skip("the plugin delivers nothing from an exchange of this type in Khepri")
	}
	r.onNode = onNode
	r.delayed(kind, false, nil)
	queue := r.queue("q", r.name, "k", nil)
	for i := range 200 {
		r.Bind(queue, fmt.Sprint("k.", i), r.name, amqp091.Table{"n": int64(i)})
	}
	due, began, last := r.fallDue(b.N)
	<-time.After(time.Until(began))

	ctx, stop := context.WithCancel(b.Context())
	var publishers [3]load
	var running sync.WaitGroup
	for i := range publishers {
		publishers[i] = load{name: fmt.Sprint("publisher ", i), lost: map[string]bool{}}
		running.Go(func() { publishers[i].run(ctx, r) })
	}
	var gap time.Duration
	for range 2 {
		gap = max(gap, r.switches(record.InPlace).Gap, r.rollsBack().Gap)
	}
	stop()
	running.Wait()

	came, twice := r.takeUntil(queue, last)
	var confirmed, returned, refused int
	for _, p := range publishers {
		confirmed, returned, refused = confirmed+p.confirmed, returned+p.returned, refused+p.refused
		for id := range p.lost {
			require.True(b, came[id], "%s was confirmed, and is lost", id)
		}
	}
	lost := 0
	for _, id := range due {
		if !came[id] {
			lost++
		}
	}
	if onNode {
		require.Zero(b, lost+returned+refused+int(gap))
	}
	b.ReportMetric(0, "ns/op") // all of it takes as long as the messages wait
	for unit, n := range map[string]int{
		"confirmed": confirmed, "returned": returned, "refused": refused,
		"lost": lost, "twice": twice, "ms-gap": int(gap.Milliseconds()),
	} {
		b.ReportMetric(float64(n), unit)
	}
}

// fallDue lets messages wait in the plugin that are due one after the other, from began on. last is
// when the last of them is due at the latest.
func (r *swapRig) fallDue(n int) (ids []string, began, last time.Time) {
	r.Helper()
	const every = 3 * time.Millisecond
	wait := time.Second + time.Duration(n)*every/3 // until all are published
	began = time.Now().Add(wait)
	messages := make([]amqp091.Publishing, n)
	for i := range messages {
		messages[i] = amqp091.Publishing{
			Headers:   amqp091.Table{"x-delay": (wait + time.Duration(i)*every).Milliseconds()},
			MessageId: fmt.Sprint("delayed ", i), DeliveryMode: amqp091.Persistent,
		}
		ids = append(ids, messages[i].MessageId)
	}
	r.PublishDelayed(r.name, "k", messages...)
	return ids, began, time.Now().Add(wait + time.Duration(n)*every)
}

// takeUntil receives what is in a queue, and what the plugin delivers there until a time: it
// delivers in the order in which messages are due.
func (r *swapRig) takeUntil(queue string, until time.Time) (came map[string]bool, twice int) {
	r.Helper()
	const end = "end"
	r.PublishDelayed(r.name, "k", amqp091.Publishing{
		Headers:   amqp091.Table{"x-delay": (max(0, time.Until(until)) + time.Second).Milliseconds()},
		MessageId: end, DeliveryMode: amqp091.Persistent,
	})
	came = map[string]bool{}
	in := r.Consume(queue)
	for {
		switch id := rabbittest.Next(r.TB, in).MessageId; {
		case id == end:
			return came, twice
		case came[id]:
			twice++
		default:
			came[id] = true
		}
	}
}
