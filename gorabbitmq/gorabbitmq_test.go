package gorabbitmq

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
)

// The shape of go-rabbitmq's Publisher.
type publisher interface {
	Publish(data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error
	PublishWithContext(ctx context.Context, data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error
}

var _, _ publisher = (*rabbitmq.Publisher)(nil), (*Publisher)(nil)

type call struct {
	exchange, key string
	delay         time.Duration
	msg           amqp091.Publishing
}

// recorder is a Delayer that notes what it is given, and fails for some keys.
type recorder struct {
	delayer.Delayer // nil: nothing else is called
	calls           []call
	fails           map[string]error
}

func (r *recorder) Publish(_ context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	r.calls = append(r.calls, call{exchange, key, delay, msg})
	return r.fails[key]
}
func (*recorder) Limits() delayer.Limits { return delayer.Limits{} }
func (*recorder) Close() error           { return nil }

func TestPublisher_Options(t *testing.T) {
	var r recorder
	headers := rabbitmq.Table{
		"n": int64(1), "t": rabbitmq.Table{"deep": rabbitmq.Table{"x": "y"}}, "a": amqp091.Table{"r": rabbitmq.Table{}},
		"l": []any{rabbitmq.Table{"i": true}, "s"},
	}
	require.Equal(t, 16, reflect.TypeFor[rabbitmq.PublishOptions]().NumField(), "an option that is new is mapped or refused")
	at := time.Unix(1_700_000_000, 0)
	require.NoError(t, NewPublisher(&r).PublishDelayed(t.Context(), time.Minute, []byte("body"), []string{"k"},
		func(o *rabbitmq.PublishOptions) {
			*o = rabbitmq.PublishOptions{
				Exchange: "x", Headers: headers, ContentType: "a", ContentEncoding: "b", DeliveryMode: 1, Priority: 2, CorrelationID: "c",
				ReplyTo: "d", Expiration: "3", MessageID: "e", Timestamp: at, Type: "f", UserID: "g", AppID: "h",
			}
		}))
	assert.Equal(t, []call{{"x", "k", time.Minute, amqp091.Publishing{
		Headers: amqp091.Table{
			"n": int64(1), "t": amqp091.Table{"deep": amqp091.Table{"x": "y"}}, "a": amqp091.Table{"r": amqp091.Table{}},
			"l": []any{amqp091.Table{"i": true}, "s"},
		},
		ContentType: "a", ContentEncoding: "b", DeliveryMode: 1, Priority: 2, CorrelationId: "c",
		ReplyTo: "d", Expiration: "3", MessageId: "e", Timestamp: at, Type: "f", UserId: "g", AppId: "h", Body: []byte("body"),
	}}}, r.calls)
	assert.IsType(t, rabbitmq.Table{}, headers["t"], "the caller's table is not modified")

	r = recorder{}
	require.NoError(t, NewPublisher(&r).Publish([]byte("b"), []string{"q"}))
	assert.Equal(t, []call{{key: "q", msg: amqp091.Publishing{Body: []byte("b")}}}, r.calls,
		"no delivery mode: a Delayer makes it persistent")
}

func TestPublisher_Refuses(t *testing.T) {
	for name, option := range map[string]func(*rabbitmq.PublishOptions){
		"Mandatory": rabbitmq.WithPublishOptionsMandatory, "Immediate": rabbitmq.WithPublishOptionsImmediate,
		"x-delay": rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"x-delay": 5}),
	} {
		var r recorder
		err := NewPublisher(&r).PublishDelayed(t.Context(), time.Second, nil, []string{"k"}, option)
		require.ErrorIs(t, err, delayer.ErrInvalid, name)
		assert.ErrorContains(t, err, name)
		assert.Empty(t, r.calls, name)
	}
	err := NewPublisher(&recorder{}).Publish(nil, nil)
	require.ErrorIs(t, err, delayer.ErrInvalid)
	assert.ErrorContains(t, err, "no routing key")
	assert.NoError(t, NewPublisher(&recorder{}).PublishDelayed(t.Context(), time.Second, nil, []string{"k"},
		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"x-delay": -5})), "what the plugin has delivered may be published again")
}

// TestPublisher_Header: without a delay as an argument, the plugin's header is read.
func TestPublisher_Header(t *testing.T) {
	given := rabbitmq.Table{"x-delay": 1500, "n": 1}
	var r recorder
	require.NoError(t, NewPublisher(&r).Publish(nil, []string{"a", "b"}, rabbitmq.WithPublishOptionsHeaders(given)))
	want := amqp091.Publishing{Headers: amqp091.Table{"n": 1}}
	assert.Equal(t, []call{{"", "a", 1500 * time.Millisecond, want}, {"", "b", 1500 * time.Millisecond, want}}, r.calls)
	assert.Len(t, given, 2, "the caller's table is not modified")

}

func TestPublisher_SeveralKeys(t *testing.T) {
	refused := &delayer.Error{Op: "publish", Object: "to b", Kind: delayer.ErrRefused}
	r := recorder{fails: map[string]error{"b": refused}}
	err := NewPublisher(&r).Publish(nil, []string{"a", "b", "c"})
	require.Len(t, r.calls, 3, "the others are published all the same")
	assert.ErrorIs(t, err, delayer.ErrRefused)
	assert.False(t, delayer.SafeToRetry(err), "a and c would get it twice")
	assert.EqualError(t, err, `outcome unknown: the message is stored for ["a" "c"], not for others: delayer: publish to b: refused by the broker`)

	r.fails["a"] = refused
	err = NewPublisher(&r).Publish(nil, []string{"a", "b"})
	assert.True(t, delayer.SafeToRetry(err), "none has it")

	r.fails["a"] = &delayer.Error{Kind: delayer.ErrUnknown}
	assert.False(t, delayer.SafeToRetry(NewPublisher(&r).Publish(nil, []string{"a", "b"})))

	one := errors.New("as it is")
	r.fails["a"] = one
	assert.Equal(t, one, NewPublisher(&r).Publish(nil, []string{"a"}))
}
