package satellites_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/watermilldelay"
)

// features are those that watermill-amqp's own tests have.
var features = tests.Features{
	ConsumerGroups: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true, Persistent: true, ForceShort: true,
}

// marshaler is what a subscriber to delayed messages needs.
var marshaler = amqp.DefaultMarshaler{PreprocessDelivery: watermilldelay.StringHeaders}

func openForWatermill(t *testing.T) delayer.Delayer {
	t.Helper()
	return rabbittest.Open(t, backend.Config{
		Options:      delayer.Options{URL: rabbittest.Broker(t).URL(), Prefix: rabbittest.Prefix(t), Logger: silent},
		BinaryLadder: binaryladder.Config{Tick: 100 * time.Millisecond, Steps: "100ms,200ms"},
	})
}

// fanout is the address of a topic of NewDurablePubSubConfig.
func fanout(topic string) (exchange, key string) { return topic, "" }

// pubSub returns a publisher and a subscriber that are as NewDurablePubSubConfig has them.
func pubSub(t *testing.T, d delayer.Delayer, group string) (message.Publisher, message.Subscriber) {
	t.Helper()
	config := amqp.NewDurablePubSubConfig(rabbittest.Broker(t).URL(), amqp.GenerateQueueNameTopicNameWithSuffix(group))
	return watermilldelay.NewPublisher(d, watermilldelay.Config{Address: fanout}), subscribe(t, config)
}

// suiteLeaves are goroutines of Watermill's suite. Its tests stop reading once they have got each
// message. When one has come twice, two goroutines wait for ever: one with the second copy, the
// other for that one.
var suiteLeaves = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/ThreeDotsLabs/watermill/internal/subscriber.(*multiplier).Subscribe.func2"),
	goleak.IgnoreAnyFunction("github.com/ThreeDotsLabs/watermill/internal/subscriber.(*multiplier).Subscribe.func3"),
}

// subscribe opens a subscriber that is closed with the test: the suite does not close all of them.
func subscribe(t *testing.T, config amqp.Config) message.Subscriber {
	t.Helper()
	config.Marshaler = marshaler
	subscriber, err := amqp.NewSubscriber(config, watermill.NopLogger{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, subscriber.Close()) })
	return subscriber
}

func TestWatermill_PubSub(t *testing.T) {
	t.Parallel()
	d := openForWatermill(t)
	tests.TestPubSub(t, features,
		func(t *testing.T) (message.Publisher, message.Subscriber) { return pubSub(t, d, "test") },
		func(t *testing.T, group string) (message.Publisher, message.Subscriber) { return pubSub(t, d, group) })
}

// TestWatermill_DelayedQueue: every message waits for 200 ms, and topics are queues.
func TestWatermill_DelayedQueue(t *testing.T) {
	t.Parallel()
	d := openForWatermill(t)
	queues := features
	queues.ConsumerGroups = false
	tests.TestPubSub(t, queues, func(t *testing.T) (message.Publisher, message.Subscriber) {
		publisher, err := delay.NewPublisher(watermilldelay.NewPublisher(d, watermilldelay.Config{}), delay.PublisherConfig{
			DefaultDelayGenerator: func(delay.DefaultDelayGeneratorParams) (delay.Delay, error) {
				return delay.For(200 * time.Millisecond), nil
			},
		})
		require.NoError(t, err)
		return publisher, subscribe(t, amqp.NewDurableQueueConfig(rabbittest.Broker(t).URL()))
	}, nil)
}

// twice publishes each message twice.
type twice struct{ message.Publisher }

func (p twice) Publish(topic string, messages ...*message.Message) error {
	return p.Publisher.Publish(topic, append(messages, messages...)...)
}

// TestWatermill_Twice: RabbitMQ delivers at least once, and the suite bears that. It needs
// suiteLeaves for it.
func TestWatermill_Twice(t *testing.T) {
	t.Parallel()
	d := openForWatermill(t)
	open := func(t *testing.T) (message.Publisher, message.Subscriber) {
		publisher, subscriber := pubSub(t, d, "test")
		return twice{publisher}, subscriber
	}
	tests.TestConcurrentSubscribe(t, tests.TestContext{TestID: tests.NewTestID(), Features: features}, open)
}

// TestMarshal_AsWatermillAMQP: its DefaultMarshaler writes the same but for the MessageId, and
// reads it.
func TestMarshal_AsWatermillAMQP(t *testing.T) {
	msg := message.NewMessage("id", message.Payload("body"))
	msg.Metadata.Set("a", "b")
	want, err := amqp.DefaultMarshaler{}.Marshal(msg)
	require.NoError(t, err)
	got, err := watermilldelay.Marshal(msg)
	require.NoError(t, err)
	want.MessageId = "id"
	require.Equal(t, want, got)
}

// TestStringHeaders_AreNeeded: watermill-amqp's DefaultMarshaler refuses the headers that RabbitMQ
// adds.
func TestStringHeaders_AreNeeded(t *testing.T) {
	delivery := amqp091.Delivery{Headers: amqp091.Table{"a": "b", "x-death": []any{amqp091.Table{"count": int64(1)}}}}
	_, err := amqp.DefaultMarshaler{}.Unmarshal(delivery)
	require.ErrorContains(t, err, "x-death is not a string")
	msg, err := marshaler.Unmarshal(delivery)
	require.NoError(t, err)
	require.Equal(t, message.Metadata{"a": "b"}, msg.Metadata)
}
