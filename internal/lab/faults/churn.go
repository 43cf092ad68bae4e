package faults

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// Growth is what is there after many Delayers were opened, used and closed, beside what was there
// after the first few.
type Growth struct {
	Rounds                int
	Goroutines            int // more than before
	Connections           int // that the broker still has
	HeapBefore, HeapAfter uint64
}

// heapSlack is by how much the heap may differ, for what the runtime keeps for itself.
const heapSlack = 4 << 20

// Bad says that something was left.
func (g Growth) Bad() bool {
	return g.Goroutines > 0 || g.Connections > 0 || g.HeapAfter > g.HeapBefore+heapSlack
}

// String says it in a line.
func (g Growth) String() string {
	verdict := ""
	if g.Bad() {
		verdict = " GROWN"
	}
	return fmt.Sprintf("%d rounds of open, publish and close: %d goroutines and %d connections left, heap %.1f MiB before and %.1f MiB after%s",
		g.Rounds, g.Goroutines, g.Connections, float64(g.HeapBefore)/(1<<20), float64(g.HeapAfter)/(1<<20), verdict)
}

// Churn opens a Delayer, publishes ten messages and closes it, again and again for as long as it
// says and for ten rounds at least. Every second round closes while messages are being published.
func Churn(ctx context.Context, s Subject, b *rabbit.Broker, lasts time.Duration) (g Growth, err error) {
	c := churn{subject: s, urls: []string{b.URL()}, prefix: "churn-" + rand.Text()[:8]}
	if c.client, err = openClient(ctx, c.urls); err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, c.client.Close()) }()
	if err := c.declare(ctx); err != nil {
		return g, err
	}
	if err := c.seen(ctx, b); err != nil {
		return g, err
	}
	const first = 5 // rounds, for what is made once
	for g.Rounds < first {
		if err := c.round(ctx, g.Rounds); err != nil {
			return g, err
		}
		g.Rounds++
	}
	goroutines := runtime.NumGoroutine()
	g.HeapBefore = heap()
	for began := time.Now(); time.Since(began) < lasts || g.Rounds < 2*first; g.Rounds++ {
		if err := c.round(ctx, g.Rounds); err != nil {
			return g, err
		}
	}
	g.Goroutines = max(0, settleGoroutines(goroutines)-goroutines)
	g.HeapAfter = settleHeap(g.HeapBefore + heapSlack)
	g.Connections, err = connectionsOf(ctx, b.Ctl, c.prefix)
	return g, errors.Join(err, c.remove(ctx))
}

type churn struct {
	subject Subject
	urls    []string
	client  *amqpclient.Client
	prefix  string
}

func (c churn) queue() string { return c.prefix + "-in" }

func (c churn) declare(ctx context.Context) error {
	return c.client.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(c.queue(), durable, autoDelete, exclusive, noWait, amqp091.Table{"x-max-length": int64(100)})
		return err
	})
}

// seen makes sure that a connection of a Delayer that is open would be counted.
func (c churn) seen(ctx context.Context, b *rabbit.Broker) error {
	d, err := c.subject.Open(ctx, c.urls, c.prefix)
	if err != nil {
		return err
	}
	n, err := countConnections(ctx, b.Ctl, c.prefix)
	if err == nil && n == 0 {
		err = errors.New("an open Delayer's connections are not seen: their names are not as expected")
	}
	return errors.Join(err, d.Close())
}

func (c churn) remove(ctx context.Context) error {
	return errors.Join(c.subject.Remove(ctx, c.urls, c.prefix), c.client.Do(ctx, func(ch *amqp091.Channel) error {
		return deleteQueue(ch, c.queue())
	}))
}

func (c churn) round(ctx context.Context, n int) error {
	d, err := c.subject.Open(ctx, c.urls, c.prefix)
	if err != nil {
		return err
	}
	const messages = 10
	answers := make(chan error, messages)
	for i := range messages {
		delay := c.subject.Delays[i%len(c.subject.Delays)]
		go func() { answers <- d.Publish(ctx, "", c.queue(), delay, amqp091.Publishing{Body: []byte("churn")}) }()
	}
	early := n%2 == 1
	if early {
		err = d.Close()
	}
	for range messages {
		if said := <-answers; said != nil && !early {
			err = errors.Join(err, said)
		}
	}
	if !early {
		err = errors.Join(err, d.Close())
	}
	return err
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// settleHeap waits until the heap is no larger than that, or a while: the runtime keeps a timer
// that was stopped, and what it would have called, until its time has come, up to ten seconds of
// what was closed.
func settleHeap(most uint64) (size uint64) {
	const patience = time.Minute
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if size = heap(); size <= most || time.Since(began) > patience {
			return size
		}
	}
}

// control is rabbitmqctl.
type control func(ctx context.Context, args ...string) (string, error)

func countConnections(ctx context.Context, ctl control, prefix string) (int, error) {
	out, err := ctl(ctx, "list_connections", "--silent", "client_properties")
	return strings.Count(out, "delayer "+prefix), err
}

// connectionsOf counts the connections of a prefix's Delayers that the broker still has, once it
// has had a while.
func connectionsOf(ctx context.Context, ctl control, prefix string) (left int, err error) {
	const patience = time.Minute
	for began := time.Now(); ; {
		left, err = countConnections(ctx, ctl, prefix)
		if err != nil || left == 0 || time.Since(began) > patience {
			return left, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}
