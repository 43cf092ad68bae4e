package broker_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// innocents publishes messages that nothing is wrong with until the test is over, and fails if one
// is not confirmed. It returns once some are.
func innocents(t *testing.T, publish func(context.Context, broker.Publishing) error, queue string) (stop func()) {
	t.Helper()
	const publishers = 16
	ctx := within(t)
	done, confirmed := make(chan struct{}), make(chan struct{}, publishers)
	var wg sync.WaitGroup
	for range publishers {
		wg.Go(func() {
			for {
				if err := publish(ctx, to(queue)); err != nil {
					t.Errorf("an innocent message: %v", err)
				}
				select {
				case confirmed <- struct{}{}:
				default:
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range publishers {
		<-confirmed
	}
	return func() { close(done); wg.Wait() }
}

// sealed is a message to a queue, as the engine sends it.
func sealed(queue string, msg amqp091.Publishing) broker.Publishing {
	return broker.Publishing{Key: queue, Message: message.Seal(msg, message.NewEnvelope(time.Now(), 0, ""), nil)}
}

func nested(depth int) any {
	var v any = amqp091.Table{}
	for range depth - 1 {
		v = amqp091.Table{"k": v}
	}
	return v
}

// oddities are messages out of the ordinary. What is wrong with them, AMQP, RabbitMQ or amqp091-go
// decide.
func oddities() map[string]amqp091.Publishing {
	bad := "\xff\xfe\x00a"
	of := func(v any) amqp091.Publishing { return amqp091.Publishing{Headers: amqp091.Table{"k": v}} }
	with := func(name string, v any) amqp091.Publishing {
		return amqp091.Publishing{Headers: amqp091.Table{name: v}}
	}
	return map[string]amqp091.Publishing{
		"NaN": of(math.NaN()), "inf": of(math.Inf(1)), "-inf": of(math.Inf(-1)), "NaN32": of(float32(math.NaN())),
		"nested NaN": of([]any{amqp091.Table{"x": float32(math.Inf(1))}}), "tiny": of(math.SmallestNonzeroFloat64),
		"reply-to": {ReplyTo: "amq.rabbitmq.reply-to"}, "reply-to of another": {ReplyTo: "amq.rabbitmq.reply-to.x"},
		"user": {UserId: "nobody"}, "mode": {DeliveryMode: 3}, "expiration": {Expiration: "soon"}, "priority": {Priority: 255},
		"binary properties": {
			ContentType: bad, ContentEncoding: bad, CorrelationId: bad, ReplyTo: bad, MessageId: bad, Type: bad, AppId: bad,
		},
		"long property": {MessageId: strings.Repeat("x", 256)}, "amqp-1.0": {Type: "amqp-1.0", ContentType: "x"},
		"binary name": with(bad, bad), "no name": with("", ""), "long name": with(strings.Repeat("x", 256), ""),
		"binary": of([]byte{0xff}), "no bytes": of([]byte(nil)), "decimal": of(amqp091.Decimal{Scale: 255, Value: -1}),
		"early": of(time.Unix(math.MinInt64, 0)), "late": {Timestamp: time.Unix(1<<61, 0)}, "negative": {Timestamp: time.Unix(-5, 0)},
		"deep": of(nested(32)), "too deep": of(nested(33)), "long list": of(make([]any, 8000)), "too long": of(make([]any, 8193)),
		"CC": with("CC", "a"), "CC nil": with("CC", nil), "CC of numbers": with("CC", []any{int64(1)}), "CC empty": with("CC", []any{""}),
		"BCC": with("BCC", []byte("a")), "BCC binary": with("BCC", []any{bad}), "death": with("x-death", "a"), "deaths": with("x-death", []any{"a"}),
		"first death": with("x-first-death-queue", int64(1)), "count": with("x-delivery-count", "a"), "delay": with("x-delay", "a"),
		"annotations": with("x-opt-deaths", "a"), "properties": with("x-basic-type", amqp091.Table{}), "map": of(map[string]any{}), "uint": of(uint64(1)),
	}
}

// TestPublish_OddMessages publishes every oddity that is accepted, twenty of each, next to
// innocent messages: none of those is unknown, and every confirmed oddity can be consumed.
func TestPublish_OddMessages(t *testing.T) {
	t.Parallel()
	url := rabbittest.Broker(t).URL()
	p, c := open(t, url, noReset)
	queue, odd := declare(t, c, nil), declare(t, c, nil)
	stop := innocents(t, p.Publish, queue)
	frame, _, _ := c.Conn().Server()
	limits := message.Limits{FrameSize: frame, User: c.Conn().User(), MaxPriority: 255}
	accepted := 0
	for name, msg := range oddities() {
		if err := message.Validate("", odd, &msg, limits); err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		for range 20 {
			require.NoError(t, p.Publish(within(t), sealed(odd, msg)), name)
			accepted++
		}
	}
	stop()
	require.Len(t, received(t, url, odd, accepted), accepted)
}

// received takes so many messages from a queue over a connection of its own.
func received(t *testing.T, url, queue string, n int) []amqp091.Delivery {
	t.Helper()
	conn, err := amqp091.Dial(url)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the test's end
	ch, err := conn.Channel()
	require.NoError(t, err)
	const anyTag, autoAck, exclusive, noLocal = "", true, false, false
	messages, err := ch.Consume(queue, anyTag, autoAck, exclusive, noLocal, waitForAnswer, nil)
	require.NoError(t, err)
	var got []amqp091.Delivery
	for len(got) < n {
		select {
		case d, ok := <-messages:
			if !ok {
				return got
			}
			got = append(got, d)
		case <-within(t).Done():
			return got
		}
	}
	return got
}

// TestPublish_LargeBody: the broker closes the channel over it, and says how much it takes.
func TestPublish_LargeBody(t *testing.T) {
	t.Parallel()
	b := rabbittest.Own(t, rabbit.Options{Config: "max_message_size = 100000"})
	p, c := open(t, b.URL(), noReset)
	queue := declare(t, c, nil)
	stop := innocents(t, p.Publish, queue)
	stopDirect := innocents(t, p.PublishDirect, queue)
	ctx := within(t)
	sized := func(n int) broker.Publishing { return sealed(queue, amqp091.Publishing{Body: make([]byte, n)}) }
	for _, publish := range []func(context.Context, broker.Publishing) error{p.Publish, p.PublishDirect} {
		require.NoError(t, publish(ctx, sized(100_000)))
		for range 3 {
			err := publish(ctx, sized(100_001))
			require.ErrorIs(t, err, delayer.ErrInvalid)
			require.ErrorContains(t, err, "100000", "it names the limit")
		}
	}
	stop()
	stopDirect()
}

// TestPublish_RefusingExchange: one that is internal, missing, or closed to the user.
func TestPublish_RefusingExchange(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to make a user")
	}
	url, allow := user(t, b)
	p, c := open(t, b.URL(), noReset)
	queue := declare(t, c, nil)
	internal := rabbittest.Prefix(t)
	require.NoError(t, c.Do(within(t), func(ch *amqp091.Channel) error {
		const durable, autoDelete, isInternal = true, false, true
		return ch.ExchangeDeclare(internal, "fanout", durable, autoDelete, isInternal, waitForAnswer, nil)
	}))
	t.Cleanup(func() {
		_ = c.Do(context.Background(), func(ch *amqp091.Channel) error { return ch.ExchangeDelete(internal, false, waitForAnswer) })
	})
	allow("^$", ".*")
	limited, _ := open(t, url, noReset)
	ctx := within(t)
	require.ErrorIs(t, limited.PublishDirect(ctx, to(queue)), delayer.ErrAccess, "the default exchange")

	stop := innocents(t, p.PublishDirect, queue)
	refused := to(queue)
	for range 3 {
		refused.Exchange = internal
		require.ErrorIs(t, p.PublishDirect(ctx, refused), delayer.ErrAccess)
		refused.Exchange = internal + ".nowhere"
		require.ErrorIs(t, p.PublishDirect(ctx, refused), delayer.ErrUnroutable)
	}
	stop()
}

// TestPublish_AfterARefusal: the channel that a refusal has closed takes no message with it. Of
// 3,000 one was not sent before that was so.
func TestPublish_AfterARefusal(t *testing.T) {
	t.Parallel()
	p, c := open(t, rabbittest.Broker(t).URL(), noReset)
	lost := to(declare(t, c, nil))
	lost.Exchange = "nowhere"
	ctx := within(t)
	for range 300 {
		require.ErrorIs(t, p.PublishDirect(ctx, lost), delayer.ErrUnroutable)
	}
}

// user makes a user without permissions, and returns the broker's URL for it.
func user(t *testing.T, b *rabbit.Broker) (url string, allow func(write, read string)) {
	t.Helper()
	name := strings.ToLower(rabbittest.Prefix(t)[:10])
	ctl := func(args ...string) {
		_, err := b.Ctl(within(t), args...)
		require.NoError(t, err)
	}
	ctl("add_user", name, "secret")
	t.Cleanup(func() { ctl("delete_user", name) })
	_, host, _ := strings.Cut(b.URL(), "@")
	return fmt.Sprintf("amqp://%s:secret@%s", name, host), func(write, read string) { ctl("set_permissions", name, ".*", write, read) }
}
