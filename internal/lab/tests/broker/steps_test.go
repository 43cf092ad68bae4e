package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// A stepsRig is a stream of steps of the broker's clock, and what a process needs to use it.
type stepsRig struct {
	testing.TB
	publisher *broker.Publisher
	control   *broker.Control
	plan      topology.Plan
	shared    brokertime.Shared
	log       brokertime.LogConfig
}

// newStepsRig declares a stream that holds about so many bytes.
func newStepsRig(t testing.TB, address string, holds int64) *stepsRig {
	t.Helper()
	name := rabbittest.Prefix(t)
	r := &stepsRig{TB: t}
	r.publisher, r.control = open(t, address, func() {})
	r.shared = brokertime.Shared{Queue: name + ".clock", Exchange: name, Key: "clock", Answers: name + ".answers"}
	r.log = brokertime.LogConfig{Queue: name + ".steps", Exchange: name, Key: "steps", Conn: r.control.Conn()}
	r.plan = r.shared.Plan()
	r.plan.Exchanges = append(r.plan.Exchanges, topology.Exchange{Name: name, Kind: topology.Direct})
	stream := brokertime.LogQueue(r.log.Queue)
	stream.Args["x-max-length-bytes"], stream.Args["x-stream-max-segment-size-bytes"] = holds, holds/10
	r.plan.Queues = append(r.plan.Queues, stream)
	r.plan.Bindings = append(r.plan.Bindings, topology.Binding{Source: name, Key: r.log.Key, Target: r.log.Queue})
	r.declare()
	return r
}

func (r *stepsRig) declare() {
	require.NoError(r, objects.Of(r.control, "test").Apply(r.Context(), r.plan))
}

func (r *stepsRig) clock(logger *slog.Logger) *brokertime.Clock {
	return brokertime.New(brokertime.Config{
		Backend: "test", Prefix: r.shared.Exchange, Logger: logger, Control: r.control, Shared: r.shared, Publish: r.publisher.PublishDirect,
	})
}

// open is a process that starts.
func (r *stepsRig) open() (*brokertime.Clock, *brokertime.Log) {
	r.Helper()
	clock := r.clock(slog.New(slog.DiscardHandler))
	log, err := brokertime.OpenLog(within(r), clock, r.log)
	require.NoError(r, err)
	return clock, log
}

// known opens, and returns the steps that are known then.
func (r *stepsRig) known() brokertime.Steps {
	r.Helper()
	clock, log := r.open()
	defer log.Close()
	require.NoError(r, clock.Ask(r.Context()))
	now, ok := clock.Read()
	require.True(r, ok)
	return now.Steps
}

// write writes an entry.
func (r *stepsRig) write(body string) error {
	msg := amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte(body)}
	return r.publisher.Publish(r.Context(), broker.Publishing{
		Exchange: r.log.Exchange, Key: r.log.Key, Stream: r.log.Queue, Message: message.Seal(msg, message.NewEnvelope(time.Now(), 0, ""), nil),
	})
}

const aGreeting = `{"greeting":"ABCDEFGHIJKLMNOPQRSTUVWXYZ","steps":null}`

// step records a step.
func (r *stepsRig) step(by time.Duration) brokertime.Steps {
	steps := brokertime.Steps{{By: by, Until: time.Now().Add(time.Hour).UTC().Truncate(time.Second)}}
	text, err := json.Marshal(steps)
	require.NoError(r, err)
	require.NoError(r, r.write(`{"steps":`+string(text)+`}`))
	return steps
}

// entries reads the stream from an offset on until last, and returns the number of the first that
// it read.
func (r *stepsRig) entries(offset string, last func(body string) bool) (first int64) {
	ctx, cancel := context.WithCancel(within(r))
	defer cancel()
	first = -1
	broker.Consume(ctx, r.control.Conn(), broker.Consuming{
		Queue: r.log.Queue, Prefetch: 100, Args: amqp091.Table{"x-stream-offset": offset},
		Serve: func(_ context.Context, messages <-chan amqp091.Delivery) {
			for d := range messages {
				if first < 0 {
					first = d.Headers["x-stream-offset"].(int64) //nolint:forcetypeassert // RabbitMQ sets it
				}
				require.NoError(r, d.Ack(false))
				if last(string(d.Body)) {
					cancel()
					return
				}
			}
		},
		Failed: func(_ context.Context, err error) { require.NoError(r, err) },
	})
	return first
}

// TestLog_RecordIsKept: processes start until the stream has dropped what was recorded first.
func TestLog_RecordIsKept(t *testing.T) {
	t.Parallel()
	r := newStepsRig(t, rabbittest.Broker(t).URL(), 20_000)
	steps := r.step(90 * time.Second)
	for dropped := false; !dropped; {
		for range 20 {
			require.Equal(t, steps, r.known())
		}
		dropped = r.entries("first", func(string) bool { return true }) > 0
	}
}

// TestLog_GreetingAtTheEnd: its writer died before it wrote the record. The next to start does.
func TestLog_GreetingAtTheEnd(t *testing.T) {
	t.Parallel()
	r := newStepsRig(t, rabbittest.Broker(t).URL(), 1<<20)
	require.Empty(t, r.known(), "the stream is empty")
	steps := r.step(90 * time.Second)
	for range 10 {
		require.NoError(t, r.write(aGreeting))
	}
	_, log := r.open()
	defer log.Close()
	r.endsWith(steps)
	require.Equal(t, steps, r.known())
}

// endsWith waits until the last entry are these steps.
func (r *stepsRig) endsWith(steps brokertime.Steps) {
	r.Helper()
	text, err := json.Marshal(steps)
	require.NoError(r, err)
	r.entries("last", func(body string) bool { return body == fmt.Sprintf(`{"steps":%s}`, text) })
}

// TestLog_ManyAtOnce start while a step is recorded, and all know it.
func TestLog_ManyAtOnce(t *testing.T) {
	t.Parallel()
	r := newStepsRig(t, rabbittest.Broker(t).URL(), 1<<20)
	var all sync.WaitGroup
	clocks := make([]*brokertime.Clock, 20)
	for i := range clocks {
		all.Go(func() {
			clock, log := r.open()
			clocks[i] = clock
			r.Cleanup(log.Close)
		})
	}
	steps := r.step(90 * time.Second)
	all.Wait()
	for _, c := range clocks {
		require.NoError(t, c.Ask(t.Context()))
		require.Eventually(t, func() bool {
			now, ok := c.Read()
			return ok && len(now.Steps) == 1
		}, patience, time.Millisecond)
	}
	r.endsWith(steps)
	require.NoError(t, r.write(`{"steps":[]}`), "by one that did not know it yet, and died")
	r.endsWith(steps)
}

// TestLog_StreamIsDeleted: when it is declared again, it soon holds the record.
func TestLog_StreamIsDeleted(t *testing.T) {
	t.Parallel()
	r := newStepsRig(t, rabbittest.Broker(t).URL(), 1<<20)
	steps := r.step(90 * time.Second)
	_, log := r.open()
	defer log.Close()
	require.NoError(t, r.control.Do(t.Context(), func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(r.log.Queue, false, false, waitForAnswer)
		return err
	}))
	r.declare()
	r.endsWith(steps)
}
