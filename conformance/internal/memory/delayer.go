package memory

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// trip is how long a message takes to the broker, or its confirm back, at most.
const trip = 400 * time.Microsecond

// Open returns a Delayer that keeps its promises.
func (b *Broker) Open(context.Context) (delayer.Delayer, error) {
	d := &memoryDelayer{broker: b, closing: make(chan struct{})}
	if b.limits.CancelBefore > 0 {
		return scheduler{d}, nil
	}
	return d, nil
}

var lastID atomic.Int64

type memoryDelayer struct {
	broker  *Broker
	closing chan struct{}

	mu       sync.Mutex
	closed   bool
	underWay sync.WaitGroup
}

var _ delayer.Delayer = (*memoryDelayer)(nil)

func (d *memoryDelayer) Limits() delayer.Limits { return d.broker.limits }

func (d *memoryDelayer) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.closing)
	}
	d.mu.Unlock()
	d.underWay.Wait()
	return nil
}

// enter counts a Publish as under way, unless the Delayer is closed.
func (d *memoryDelayer) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.underWay.Add(1)
	return true
}

func fail(kind, cause error) error {
	return &delayer.Error{Op: "publish", Backend: "memory", Kind: kind, Cause: cause}
}

func (d *memoryDelayer) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	if !d.enter() {
		return fail(delayer.ErrClosed, nil)
	}
	defer d.underWay.Done()
	if err := ctx.Err(); err != nil {
		return fail(delayer.ErrNotSent, err)
	}
	effective, err := d.effective(delay)
	if err != nil {
		return err
	}
	if err := d.check(exchange, key, msg); err != nil {
		return err
	}
	up, cut := d.broker.connection()
	select {
	case <-up:
	case <-ctx.Done():
		return fail(delayer.ErrNotSent, ctx.Err())
	case <-d.closing:
		return fail(delayer.ErrClosed, nil)
	}
	if err := travel(ctx, cut, &d.broker.sending, delayer.ErrNotSent); err != nil {
		return err
	}
	id, _ := ctx.Value(idKey{}).(int64)
	if err := d.store(id, exchange, key, delay, effective, clone(msg)); err != nil {
		return err
	}
	return travel(ctx, cut, &d.broker.confirming, delayer.ErrUnknown)
}

// travel takes as long as a message does over a connection, and fails if that or ctx ends first.
func travel(ctx context.Context, cut <-chan struct{}, travelling *atomic.Int64, kind error) error {
	travelling.Add(1)
	defer travelling.Add(-1)
	arrived := time.NewTimer(rand.N(trip))
	defer arrived.Stop()
	select {
	case <-arrived.C:
		return nil
	case <-cut:
		return fail(kind, amqp091.ErrClosed)
	case <-ctx.Done():
		return fail(kind, ctx.Err())
	}
}

// store hands a message to the broker.
func (d *memoryDelayer) store(id int64, exchange, key string, delay, effective time.Duration, msg amqp091.Publishing) error {
	if msg.Headers == nil {
		msg.Headers = amqp091.Table{}
	}
	maps.DeleteFunc(msg.Headers, func(name string, _ any) bool {
		return name == "x-death" || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
	})
	due := time.Now().Add(effective).UnixMilli()
	millis := (effective + time.Millisecond - 1).Milliseconds()
	msg.Headers[delayer.Header] = fmt.Sprintf("memory-%d %d %d %s", lastID.Add(1), due, millis, exchange)
	if msg.DeliveryMode == 0 {
		msg.DeliveryMode = amqp091.Persistent
	}
	b := d.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limits.ReportsUnroutable && !b.exists(exchange, key) {
		return fail(delayer.ErrUnroutable, nil)
	}
	if delay > 0 {
		b.wait(message{exchange: exchange, key: key, msg: msg, id: id}, effective)
		return nil
	}
	if b.route(exchange, key, msg) == 0 && b.limits.ReportsUnroutable {
		return fail(delayer.ErrUnroutable, nil)
	}
	return nil
}

// effective rounds a delay up, or refuses it.
func (d *memoryDelayer) effective(delay time.Duration) (time.Duration, error) {
	l := d.broker.limits
	if delay < 0 || delay > l.Max || delay > 0 && l.ExactTiers && !slices.Contains(l.Tiers, delay) {
		return 0, fail(delayer.ErrOutOfRange, nil)
	}
	if delay == 0 {
		return 0, nil
	}
	for _, tier := range l.Tiers {
		if delay <= tier {
			return tier, nil
		}
	}
	if over := delay % l.Resolution; over != 0 {
		delay += l.Resolution - over
	}
	return delay, nil
}

// check refuses what could not be published to a RabbitMQ.
func (d *memoryDelayer) check(exchange, key string, m amqp091.Publishing) error {
	const shortString, frame = 255, 128 << 10
	invalid := func(why string) error { return fail(delayer.ErrInvalid, fmt.Errorf("%s", why)) }
	for _, s := range []string{exchange, key, m.ContentType, m.ContentEncoding, m.CorrelationId, m.ReplyTo, m.MessageId, m.Type, m.UserId, m.AppId} {
		if len(s) > shortString {
			return invalid("longer than 255 bytes")
		}
	}
	if m.Expiration != "" || m.Priority > d.broker.limits.MaxPriority {
		return invalid("expiration or priority")
	}
	if err := m.Headers.Validate(); err != nil {
		return fail(delayer.ErrInvalid, err)
	}
	for name, value := range m.Headers {
		if len(name) > shortString {
			return invalid("header name longer than 255 bytes")
		}
		if s, ok := value.(string); ok && len(s) > frame {
			return invalid("headers longer than a frame")
		}
		if name == "CC" || name == "BCC" {
			list, ok := value.([]any)
			if !ok || slices.ContainsFunc(list, func(k any) bool { _, isString := k.(string); return !isString }) {
				return invalid(name + " is no array of strings")
			}
		}
	}
	return nil
}
