package bench

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// A loopback is a Delayer without a broker: it confirms at once, and the message has arrived.
type loopback struct {
	delayer.NoTickets
	arrival func(id string)
}

func (l loopback) Publish(_ context.Context, _, _ string, _ time.Duration, msg amqp091.Publishing) error {
	l.arrival(msg.MessageId)
	return nil
}

func (l loopback) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return delayer.PublishEach(ctx, l.Publish, messages)
}

func (loopback) Limits() delayer.Limits { return delayer.Limits{} }
func (loopback) Close() error           { return nil }

// publishLoopback publishes n messages without a broker and returns what recorded them.
func publishLoopback(ctx context.Context, n int) (*recorder, error) {
	recorder := newRecorder()
	s := &trial{
		recorder: recorder, delayer: loopback{arrival: recorder.arrival}, destination: &destination{queue: "loopback"},
		body: make([]byte, common{}.body()),
	}
	return recorder, s.publish(ctx, load{delays: make([]time.Duration, n), workers: publishers})
}

// generated is how many messages generator measures.
var generated = 100_000

// generator measures how many messages a second the benchmark can publish and record without a
// broker, and the processor time in microseconds that each takes. A broker near that rate would be
// limited by the benchmark.
func generator(ctx context.Context) (perS, cpu float64) {
	if _, err := publishLoopback(ctx, generated/10); err != nil { // to warm up
		return 0, 0
	}
	before := processCPU()
	recorder, err := publishLoopback(ctx, generated)
	after := processCPU()
	if err != nil {
		return 0, 0
	}
	return publishRate(recorder.samples()), (after - before).Seconds() * 1e6 / float64(generated)
}
