package faults

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// What the bare booleans of amqp091-go mean here.
const (
	durable    = true
	autoDelete = false
	exclusive  = false
	internal   = false
	noWait     = false
	noLocal    = false
	autoAck    = false
	multiple   = false
	ifUnused   = false
	ifEmpty    = false
)

// An inbox is the consumer's side of a run. Its connections come back; what it takes is acknowledged one by one.
type inbox struct {
	run  *Run
	urls []string

	ctx       context.Context // ended by close
	cancel    context.CancelFunc
	consumers sync.WaitGroup
	idle      atomic.Bool // takes nothing, for a destination that shall fill
}

// openInbox declares the destinations and consumes.
func openInbox(ctx context.Context, r *Run, urls []string) (*inbox, error) {
	b := &inbox{run: r, urls: urls}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if err := b.declare(ctx); err != nil {
		b.cancel()
		return nil, err
	}
	b.consumers.Go(func() { b.consume(r.Queue(), b.arrived) })
	return b, nil
}

// collect also takes the messages of the queue for unroutable ones.
func (b *inbox) collect(queue string) {
	if queue != "" {
		b.consumers.Go(func() { b.consume(queue, b.kept) })
	}
}

// declare makes the queue and the exchange where messages arrive. They are a quorum queue whatever the Delayer has:
// what is lost is the Delayer's loss.
func (b *inbox) declare(ctx context.Context) error { return b.declareWith(ctx, nil) }

func (b *inbox) declareWith(ctx context.Context, more amqp091.Table) error {
	args := amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum}
	for k, v := range more {
		args[k] = v
	}
	return Do(ctx, b.urls, func(ch *amqp091.Channel) error {
		if _, err := ch.QueueDeclare(b.run.Queue(), durable, autoDelete, exclusive, noWait, args); err != nil {
			return err
		}
		if err := ch.ExchangeDeclare(b.run.Exchange(), "topic", durable, autoDelete, internal, noWait, nil); err != nil {
			return err
		}
		return ch.QueueBind(b.run.Queue(), "to.#", b.run.Exchange(), noWait, nil)
	})
}

func (b *inbox) arrived(d amqp091.Delivery, at time.Time) {
	if id, ok := b.number(d.Body); ok {
		b.run.Ledger.Arrive(id, at, d.Redelivered)
		return
	}
	if string(d.Body) != anothers {
		b.run.Ledger.Arrive(-1, at, false)
	}
}

// anothers is the body of a message that is nobody's: Publish's answer to it is not looked at.
const anothers = "another's"

func (b *inbox) kept(d amqp091.Delivery, _ time.Time) {
	if id, ok := b.number(d.Body); ok {
		b.run.Ledger.Keep(id)
	}
}

func (b *inbox) number(body []byte) (int, bool) {
	prefix, text, _ := strings.Cut(string(body), " ")
	id, err := strconv.Atoi(text)
	return id, err == nil && prefix == b.run.Prefix
}

// consume takes from a queue until close, over connections that come back.
func (b *inbox) consume(queue string, took func(amqp091.Delivery, time.Time)) {
	const pause = 100 * time.Millisecond
	for turn := 0; b.ctx.Err() == nil; turn++ {
		if !b.idle.Load() {
			b.session(b.urls[turn%len(b.urls)], queue, took)
		}
		select {
		case <-b.ctx.Done():
		case <-time.After(pause):
		}
	}
}

// session consumes over one connection until it is lost, the queue is gone, or the inbox closes or idles.
func (b *inbox) session(url, queue string, took func(amqp091.Delivery, time.Time)) {
	conn, err := Dial(b.ctx, url)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(2 * time.Second)) }()
	ch, err := conn.Channel()
	if err != nil {
		return
	}
	const prefetch, bytes, global = 200, 0, false
	if ch.Qos(prefetch, bytes, global) != nil {
		return
	}
	deliveries, err := ch.Consume(queue, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return
	}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for !b.idle.Load() {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return
			}
			took(d, time.Now())
			_ = d.Ack(multiple) // where that fails, deliveries ends after what has already come
		case <-look.C:
		case <-b.ctx.Done():
			return
		}
	}
}

// close ends the consumers and deletes what the run has left.
func (b *inbox) close() error {
	b.cancel()
	b.consumers.Wait()
	const enough = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	return Do(ctx, b.urls, func(ch *amqp091.Channel) error {
		if _, err := ch.QueueDelete(b.run.Queue(), ifUnused, ifEmpty, noWait); err != nil {
			return err
		}
		return ch.ExchangeDelete(b.run.Exchange(), ifUnused, noWait)
	})
}

// Dial connects, with a heartbeat, unless ctx has ended.
func Dial(ctx context.Context, url string) (*amqp091.Connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	const handshake, heartbeat = 5 * time.Second, 10 * time.Second
	return amqp091.DialConfig(url, amqp091.Config{
		Dial: amqp091.DefaultDial(handshake), Heartbeat: heartbeat,
		Properties: amqp091.Table{"connection_name": "faults"},
	})
}

// Do runs f on a channel of a connection of its own to the first broker that answers, again while brokers are away or
// answer that they cannot now, until ctx ends. f must bear to be done again.
func Do(ctx context.Context, urls []string, f func(*amqp091.Channel) error) error {
	const pause = 100 * time.Millisecond
	for turn := 0; ; turn++ {
		err := doOnce(ctx, urls[turn%len(urls)], f)
		if err == nil || final(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// final says that the broker will answer the same again.
func final(err error) bool {
	var refused *amqp091.Error
	if !errors.As(err, &refused) || !refused.Server {
		return false
	}
	return refused.Code == amqp091.PreconditionFailed || locked(err)
}

// locked says that a queue is exclusive to another connection, and goes with it.
func locked(err error) bool {
	var refused *amqp091.Error
	return errors.As(err, &refused) && refused.Code == amqp091.ResourceLocked
}

func doOnce(ctx context.Context, url string, f func(*amqp091.Channel) error) error {
	conn, err := Dial(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(2 * time.Second)) }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return f(ch)
}
