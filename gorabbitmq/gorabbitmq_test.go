package gorabbitmq

import (
	"context"
	"reflect"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/delayertest"
)

// The shape of go-rabbitmq's Publisher.
type publisher interface {
	Publish(data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error
	PublishWithContext(ctx context.Context, data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error
}

var _, _ publisher = (*rabbitmq.Publisher)(nil), (*Publisher)(nil)

func TestPublisher_Options(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	headers := rabbitmq.Table{
		"n": int64(1), "t": rabbitmq.Table{"deep": rabbitmq.Table{"x": "y"}}, "a": amqp091.Table{"r": rabbitmq.Table{}},
		"l": []any{rabbitmq.Table{"i": true}, "s"},
	}
	require.Equal(t, 16, reflect.TypeFor[rabbitmq.PublishOptions]().NumField(), "an option that is new is mapped or refused")
	at := time.Unix(1_700_000_000, 0)
	p := NewPublisher(d)
	require.NoError(t, p.PublishDelayed(t.Context(), time.Minute, []byte("body"), []string{"k"},
		func(o *rabbitmq.PublishOptions) {
			*o = rabbitmq.PublishOptions{
				Exchange: "x", Headers: headers, ContentType: "a", ContentEncoding: "b", DeliveryMode: 1, Priority: 2, CorrelationID: "c",
				ReplyTo: "d", MessageID: "e", Timestamp: at, Type: "f", UserID: "g", AppID: "h",
			}
		}))
	want := amqp091.Publishing{
		Headers: amqp091.Table{
			"n": int64(1), "t": amqp091.Table{"deep": amqp091.Table{"x": "y"}}, "a": amqp091.Table{"r": amqp091.Table{}},
			"l": []any{amqp091.Table{"i": true}, "s"},
		},
		ContentType: "a", ContentEncoding: "b", DeliveryMode: 1, Priority: 2, CorrelationId: "c",
		ReplyTo: "d", MessageId: "e", Timestamp: at, Type: "f", UserId: "g", AppId: "h", Body: []byte("body"),
	}
	assert.Equal(t, []delayer.Message{{Exchange: "x", Key: "k", Delay: time.Minute, Publishing: want}}, d.Published())
	assert.IsType(t, rabbitmq.Table{}, headers["t"], "the caller's table is not modified")

	require.NoError(t, p.Publish([]byte("b"), []string{"q"}))
	assert.Equal(t, delayer.Message{Key: "q", Publishing: amqp091.Publishing{Body: []byte("b")}}, d.Published()[1],
		"no delivery mode: a Delayer makes it persistent")
}

func TestPublisher_Refuses(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	p := NewPublisher(d)
	for name, option := range map[string]func(*rabbitmq.PublishOptions){
		"Mandatory": rabbitmq.WithPublishOptionsMandatory, "Immediate": rabbitmq.WithPublishOptionsImmediate,
		"x-delay":    rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"x-delay": 5}),
		"Expiration": rabbitmq.WithPublishOptionsExpiration("3"), // by the Delayer
	} {
		err := p.PublishDelayed(t.Context(), time.Second, nil, []string{"k"}, option)
		require.ErrorIs(t, err, delayer.ErrInvalid, name)
		assert.ErrorContains(t, err, name)
	}
	err := p.Publish(nil, nil)
	require.ErrorIs(t, err, delayer.ErrInvalid)
	assert.ErrorContains(t, err, "no routing key")
	assert.Empty(t, d.Published())
	assert.NoError(t, p.PublishDelayed(t.Context(), time.Second, nil, []string{"k"},
		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"x-delay": -5})), "what the plugin has delivered may be published again")
}

// TestPublisher_Header: without a delay as an argument, the plugin's header is read.
func TestPublisher_Header(t *testing.T) {
	given := rabbitmq.Table{"x-delay": 1500, "n": 1}
	d := delayertest.New(delayertest.Config{})
	require.NoError(t, NewPublisher(d).Publish(nil, []string{"a", "b"}, rabbitmq.WithPublishOptionsHeaders(given)))
	want := amqp091.Publishing{Headers: amqp091.Table{"n": 1}}
	assert.Equal(t, []delayer.Message{
		{Key: "a", Delay: 1500 * time.Millisecond, Publishing: want}, {Key: "b", Delay: 1500 * time.Millisecond, Publishing: want},
	}, d.Published())
	assert.Len(t, given, 2, "the caller's table is not modified")
}

func TestPublisher_SeveralKeys(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	publish := func(keys []string, answers ...error) error {
		d.FailNext(answers...)
		return NewPublisher(d).PublishDelayed(t.Context(), time.Second, nil, keys)
	}
	err := publish([]string{"a", "b", "c"}, nil, delayer.ErrRefused, nil)
	require.Len(t, d.Published(), 2, "the others are published all the same")
	assert.ErrorIs(t, err, delayer.ErrRefused)
	assert.False(t, delayer.SafeToRetry(err), "a and c would get it twice")
	assert.ErrorContains(t, err, `outcome unknown: the message is stored for ["a" "c"], not for others: delayer: publish`)

	err = publish([]string{"a", "b"}, delayer.ErrRefused, delayer.ErrRefused)
	assert.True(t, delayer.SafeToRetry(err), "none has it")
	err = publish([]string{"a", "b"}, delayer.ErrUnknown, delayer.ErrRefused)
	assert.False(t, delayer.SafeToRetry(err))
	assert.IsType(t, &delayer.Error{}, publish([]string{"a"}, delayer.ErrRefused), "the Delayer's, as it is")
}
