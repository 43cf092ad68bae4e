package satellites_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/watermilldelay"
)

// features are those that watermill-amqp's own tests have, but for groups: those are a subscriber's.
var features = tests.Features{
	GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true, Persistent: true, ForceShort: true,
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

// TestWatermill_DelayedQueue: every message waits for 200 ms, and topics are queues.
func TestWatermill_DelayedQueue(t *testing.T) {
	t.Parallel()
	d := openForWatermill(t)
	tests.TestPubSub(t, features, func(t *testing.T) (message.Publisher, message.Subscriber) {
		publisher, err := delay.NewPublisher(watermilldelay.NewPublisher(d, watermilldelay.Config{}), delay.PublisherConfig{
			DefaultDelayGenerator: func(delay.DefaultDelayGeneratorParams) (delay.Delay, error) {
				return delay.For(200 * time.Millisecond), nil
			},
		})
		require.NoError(t, err)
		return publisher, subscribe(t, amqp.NewDurableQueueConfig(rabbittest.Broker(t).URL()))
	}, nil)
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
