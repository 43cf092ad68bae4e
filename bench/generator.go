package bench

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// A sink is a Delayer with no broker behind it: it confirms at once, and the message has arrived.
type sink struct{ arrival func(id string) }

func (s sink) Publish(_ context.Context, _, _ string, _ time.Duration, msg amqp091.Publishing) error {
	s.arrival(msg.MessageId)
	return nil
}

func (sink) Limits() delayer.Limits { return delayer.Limits{} }
func (sink) Close() error           { return nil }

// generatorWorkers is how many publishers the command has by default.
const generatorWorkers = 256

// toSink publishes n messages into a sink, and returns what was recorded: what the benchmark itself can do.
func toSink(ctx context.Context, n int) ([]Sample, error) {
	recorder := newRecorder()
	s := &Session{
		recorder: recorder, delayer: sink{recorder.arrival}, destination: &destination{queue: "sink"},
		body: make([]byte, Load{}.body()),
	}
	err := s.publish(ctx, load{delays: make([]time.Duration, n), workers: generatorWorkers})
	return recorder.samples(), err
}

// generator measures how many messages a second the benchmark can generate and record, and the processor time in
// microseconds that each takes. A broker that comes near that rate would be limited by us.
func generator(ctx context.Context) (perS, cpu float64) {
	const warm, n = 10_000, 100_000
	if _, err := toSink(ctx, warm); err != nil {
		return 0, 0
	}
	before, _ := processCPU()
	samples, err := toSink(ctx, n)
	after, _ := processCPU()
	if err != nil {
		return 0, 0
	}
	return publishRate(samples), (after - before).Seconds() * 1e6 / n
}
