package watermilldelay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func TestDelayOf(t *testing.T) {
	now := time.Date(2030, 1, 31, 12, 0, 0, 400_000_000, time.UTC)
	for name, c := range map[string]struct {
		duration, until string
		want            time.Duration
	}{
		"no delay":                            {},
		"a duration":                          {duration: "1m30s", want: 90 * time.Second},
		"a negative duration":                 {duration: "-1s"},
		"a time":                              {until: "2030-01-31T12:00:05Z", want: 4600 * time.Millisecond},
		"a time with a fraction":              {until: "2030-01-31T12:00:05.5Z", want: 5100 * time.Millisecond},
		"a time elsewhere":                    {until: "2030-01-31T14:00:05+02:00", want: 4600 * time.Millisecond},
		"a time that has passed":              {until: "2030-01-31T12:00:00Z"},
		"both, just written":                  {duration: "5s", until: "2030-01-31T12:00:05Z", want: 5 * time.Second},
		"both, written three seconds ago":     {duration: "5s", until: "2030-01-31T12:00:02Z", want: 2600 * time.Millisecond},
		"both, written long ago":              {duration: "5s", until: "2029-01-31T12:00:02Z"},
		"both, by a clock that is far behind": {duration: "5s", until: "2030-01-31T11:00:00Z"},
		"both, by a clock that is ahead":      {duration: "5s", until: "2030-01-31T13:00:00Z", want: 5 * time.Second},
		"both, the time with a fraction":      {duration: "5s", until: "2030-01-31T12:00:02.4Z", want: 2 * time.Second},
		"the zero Delay":                      {duration: "0s", until: "0001-01-01T00:00:00Z"},
		"a century":                           {until: "2130-01-31T12:00:00.4Z", want: time.Date(2130, 1, 31, 12, 0, 0, 400_000_000, time.UTC).Sub(now)},
	} {
		got, err := delayOf(message.Metadata{delay.DelayedForKey: c.duration, delay.DelayedUntilKey: c.until}, now)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
	for _, bad := range []message.Metadata{
		{delay.DelayedForKey: "5"}, {delay.DelayedForKey: "soon", delay.DelayedUntilKey: "2030-01-31T12:00:05Z"},
		{delay.DelayedUntilKey: "tomorrow"}, {delay.DelayedUntilKey: "3000-01-01T00:00:00Z"},
	} {
		_, err := delayOf(bad, now)
		require.ErrorContains(t, err, "metadata _watermill_delayed_", "%v", bad)
	}
}

// TestDelayOf_NeverEarly: whenever a message is marked, and whenever it is published.
func TestDelayOf_NeverEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lies := range []time.Duration{0, time.Millisecond, 999 * time.Millisecond, time.Second, 3 * time.Second, time.Minute} {
			for range 10 {
				msg := message.NewMessage("", nil)
				due := time.Now().Add(5 * time.Second)
				delay.Message(msg, delay.For(5*time.Second))
				time.Sleep(lies) // of a bubble's time
				wait, err := delayOf(msg.Metadata, time.Now())
				require.NoError(t, err)
				arrives := time.Now().Add(wait)
				if time.Now().Before(due) {
					require.False(t, arrives.Before(due), "early by %v", due.Sub(arrives))
					require.LessOrEqual(t, arrives.Sub(due), time.Second)
				} else {
					require.LessOrEqual(t, wait, time.Second)
				}
				time.Sleep(137 * time.Millisecond)
			}
		}
	})
}

// recorder is a Delayer that notes what it is given, and fails for some messages.
type recorder struct {
	delayer.Delayer // nil: nothing else is called
	batches         [][]delayer.Message
	ctxs            []context.Context
	fails           map[string]error
}

func (r *recorder) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	r.batches, r.ctxs = append(r.batches, messages), append(r.ctxs, ctx)
	results := make([]error, len(messages))
	for i, m := range messages {
		results[i] = r.fails[m.Publishing.MessageId]
	}
	return results
}

func (*recorder) Publish(context.Context, string, string, time.Duration, amqp091.Publishing) error {
	return errors.New("one by one")
}
func (*recorder) Limits() delayer.Limits { return delayer.Limits{} }
func (*recorder) Close() error           { return errors.New("the caller closes it") }

func TestPublisher_Publish(t *testing.T) {
	var r recorder
	msg := message.NewMessage("id", message.Payload("body"))
	msg.Metadata.Set("a", "b")
	msg.Metadata.Set(delay.DelayedForKey, "3s")
	require.NoError(t, NewPublisher(&r, Config{}).Publish("topic", msg))
	assert.Equal(t, [][]delayer.Message{{{Key: "topic", Delay: 3 * time.Second, Publishing: amqp091.Publishing{
		MessageId: "id", DeliveryMode: amqp091.Persistent, Body: []byte("body"),
		Headers: amqp091.Table{"a": "b", delay.DelayedForKey: "3s", "_watermill_message_uuid": "id"},
	}}}}, r.batches)

	r = recorder{}
	p := NewPublisher(&r, Config{
		Address: func(topic string) (exchange, key string) { return topic, "key" },
		Marshal: func(*message.Message) (amqp091.Publishing, error) { return amqp091.Publishing{Type: "own"}, nil },
	})
	require.NoError(t, p.Publish("topic", msg))
	assert.Equal(t, [][]delayer.Message{{{Exchange: "topic", Key: "key", Delay: 3 * time.Second, Publishing: amqp091.Publishing{Type: "own"}}}}, r.batches)
	require.NoError(t, p.Publish("topic"))
	assert.Len(t, r.batches, 1)
}

func TestPublisher_ContextOfEachMessage(t *testing.T) {
	var r recorder
	type key struct{}
	one := context.WithValue(t.Context(), key{}, 1)
	var messages []*message.Message
	for _, ctx := range []context.Context{t.Context(), t.Context(), one, t.Context()} {
		messages = append(messages, message.NewMessageWithContext(ctx, "", nil))
	}
	require.NoError(t, NewPublisher(&r, Config{}).Publish("topic", messages...))
	assert.Equal(t, []context.Context{t.Context(), one, t.Context()}, r.ctxs)
	assert.Equal(t, []int{2, 1, 1}, []int{len(r.batches[0]), len(r.batches[1]), len(r.batches[2])})
}

func TestPublisher_NothingOrAllIsSent(t *testing.T) {
	var r recorder
	good, bad := message.NewMessage("good", nil), message.NewMessage("bad", nil)
	bad.Metadata.Set(delay.DelayedForKey, "soon")
	err := NewPublisher(&r, Config{}).Publish("topic", good, bad)
	require.ErrorIs(t, err, delayer.ErrInvalid)
	require.EqualError(t, err, `delayer: publish to topic "topic": invalid message: metadata _watermill_delayed_for is "soon", want a duration such as 90s`)
	cause := errors.New("cannot")
	p := NewPublisher(&r, Config{Marshal: func(*message.Message) (amqp091.Publishing, error) { return amqp091.Publishing{}, cause }})
	require.ErrorIs(t, p.Publish("topic", good), cause)
	require.Empty(t, r.batches)
}

func TestPublisher_SomeFail(t *testing.T) {
	refused := &delayer.Error{Op: "publish", Object: "to b", Kind: delayer.ErrRefused}
	r := recorder{fails: map[string]error{"b": refused}}
	a, b := message.NewMessage("a", nil), message.NewMessage("b", nil)
	p := NewPublisher(&r, Config{})
	err := p.Publish("topic", a, b)
	require.EqualError(t, err, "outcome unknown: 1 of 2 messages are stored: delayer: publish to b: refused by the broker")
	assert.ErrorIs(t, err, delayer.ErrRefused)
	assert.False(t, delayer.SafeToRetry(err), "a would come twice")

	assert.Equal(t, refused, p.Publish("topic", b))
	r.fails["a"] = refused
	assert.True(t, delayer.SafeToRetry(p.Publish("topic", a, b)))
}

func TestPublisher_Close(t *testing.T) {
	var r recorder
	p := NewPublisher(&r, Config{})
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Publish("topic", message.NewMessage("", nil)), delayer.ErrClosed)
	require.Empty(t, r.batches)
}

func TestStringHeaders(t *testing.T) {
	given := amqp091.Delivery{Headers: amqp091.Table{"s": "string", "x-death": []any{}, "n": int64(1), "b": []byte("b"), "nil": nil}, Body: []byte("body")}
	got := StringHeaders(given)
	assert.Equal(t, amqp091.Delivery{Headers: amqp091.Table{"s": "string"}, Body: []byte("body")}, got)
	assert.Len(t, given.Headers, 5, "the caller's table is not modified")
	assert.Empty(t, StringHeaders(amqp091.Delivery{}).Headers)
}
