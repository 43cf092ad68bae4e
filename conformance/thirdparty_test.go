package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/conformance"
)

// thirdParty is a small backend of somebody else. It uses only what is exported, sends messages one
// by one, and cannot cancel. Its messages wait in this process.
type thirdParty struct {
	delayer.NoTickets
	closed  atomic.Bool
	deliver func(amqp091.Delivery)
}

var _ delayer.Delayer = (*thirdParty)(nil)

func (*thirdParty) Limits() delayer.Limits {
	return delayer.Limits{Max: time.Hour, Resolution: time.Millisecond, ExactTopics: true}
}

func (t *thirdParty) Close() error {
	t.closed.Store(true)
	return nil
}

func (t *thirdParty) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return delayer.PublishEach(ctx, t.Publish, messages)
}

var thirdPartyIDs atomic.Int64

func (t *thirdParty) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	fail := func(kind, cause error) error {
		return &delayer.Error{Op: "publish", Backend: "thirdparty", Kind: kind, Cause: cause}
	}
	if t.closed.Load() {
		return fail(delayer.ErrClosed, nil)
	}
	if err := travel(ctx, nil, new(atomic.Int64), delayer.ErrNotSent); err != nil {
		return err
	}
	if limits := t.Limits(); delay < 0 || delay > limits.Max {
		return fail(delayer.ErrOutOfRange, fmt.Errorf("%v is not between 0 and %v", delay, limits.Max))
	}
	if err := valid(exchange, key, msg); err != nil {
		return fail(delayer.ErrInvalid, err)
	}
	delay = (delay + time.Millisecond - 1).Truncate(time.Millisecond)
	m := t.delivery(exchange, key, delay, msg)
	time.AfterFunc(delay, func() { t.deliver(m) })
	return nil
}

// valid refuses messages because of which RabbitMQ would close the connection.
func valid(exchange, key string, m amqp091.Publishing) error {
	const short, frame = 255, 128 << 10
	texts := []string{exchange, key, m.ContentType, m.ContentEncoding, m.CorrelationId, m.ReplyTo, m.MessageId, m.Type, m.UserId, m.AppId}
	if slices.ContainsFunc(slices.AppendSeq(texts, maps.Keys(m.Headers)), func(s string) bool { return len(s) > short }) {
		return errors.New("a name or property is longer than 255 bytes")
	}
	if m.Expiration != "" || m.Priority > 0 {
		return errors.New("neither an expiration nor a priority is possible")
	}
	for name, value := range m.Headers {
		list, isList := value.([]any)
		notText := func(k any) bool { _, is := k.(string); return !is }
		if (name == "CC" || name == "BCC") && (!isList || slices.ContainsFunc(list, notText)) {
			return fmt.Errorf("%s is no array of strings", name)
		}
		if s, is := value.(string); is && len(s) > frame {
			return fmt.Errorf("header %s is longer than a frame", name)
		}
	}
	return m.Headers.Validate()
}

// delivery is what a consumer receives: a copy, with the header that every backend adds.
func (t *thirdParty) delivery(exchange, key string, delay time.Duration, m amqp091.Publishing) amqp091.Delivery {
	headers := conformance.DeepCopy(m.Headers).(amqp091.Table)
	maps.DeleteFunc(headers, func(name string, _ any) bool {
		return name == "x-death" || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
	})
	headers[delayer.Header] = delayer.Envelope{
		ID: fmt.Sprint(thirdPartyIDs.Add(1)), Due: time.Now().Add(delay), Delay: delay, Exchange: exchange,
	}.String()
	if m.DeliveryMode == 0 {
		m.DeliveryMode = amqp091.Persistent
	}
	return amqp091.Delivery{
		Headers: headers, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, DeliveryMode: m.DeliveryMode,
		CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo, MessageId: m.MessageId, Timestamp: m.Timestamp, Type: m.Type,
		UserId: m.UserId, AppId: m.AppId, Exchange: exchange, RoutingKey: key, Body: slices.Clone(m.Body),
	}
}

// TestThirdParty: a backend can pass the suite with package delayer alone.
func TestThirdParty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker((*thirdParty)(nil).Limits())
		h := harness(b)
		h.Open = func(context.Context) (delayer.Delayer, error) {
			return &thirdParty{NoTickets: delayer.NoTickets{Backend: "thirdparty"}, deliver: b.arrive}, nil
		}
		r := &recorder{}
		conformance.RunOn(r, h)
		assert.Empty(t, r.failed())
		assert.Len(t, r.subtests, len(conformance.Cases()))
		for name, sub := range r.subtests {
			assert.Empty(t, sub.skipped, name)
		}
	})
}
