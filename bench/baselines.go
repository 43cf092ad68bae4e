package bench

import (
	"context"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/bench/internal/baseline"
)

// Baselines returns the well-known methods to delay messages on RabbitMQ, to compare a subject
// with, and plain publishing without a delay, the floor. queueType is that of the queues in which
// messages wait. Like the originals they are early, block or lose messages.
//
//   - bit-entry: a ladder of 28 topic exchanges, each with a queue of 2^k seconds, entered at the
//     highest set bit of the delay. NServiceBus does so.
//   - top-entry: the same ladder, entered at the top whatever the delay. Celery does so.
//   - per-message-ttl: one queue, the delay as the message's own expiration. Only the head of a
//     queue expires.
//   - undelayed: a plain confirmed publish to the destination.
func Baselines(queueType string) []Subject {
	// Pace is for two cores and quorum queues.
	subjects := []Subject{
		{Backend: baseline.BitEntry, Ladder: true, Pace: 7000},
		{Backend: baseline.TopEntry, Ladder: true, Pace: 450},
		{Backend: baseline.PerMessageTTL, Blocks: true},
		{Backend: baseline.Undelayed, Undelayed: true},
	}
	for i := range subjects {
		s := &subjects[i]
		config := func(env Env) baseline.Config {
			return baseline.Config{
				URL: env.URL, Name: s.Backend, Prefix: env.Prefix, QueueType: queueType, Destination: env.Destination,
				Tick: env.Tick, Existing: env.Existing,
			}
		}
		s.QueueType, s.Baseline = queueType, true
		s.Open = func(ctx context.Context, env Env) (delayer.Delayer, error) { return baseline.Open(ctx, config(env)) }
		s.Remove = func(ctx context.Context, env Env) error { return baseline.Remove(ctx, config(env)) }
	}
	return subjects
}
