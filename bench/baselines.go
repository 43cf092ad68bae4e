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
//   - mixed-tiers: four such queues, for delays up to 1, 5, 10 and 20 s. Similar delays block each
//     other for less long.
//   - undelayed: a plain confirmed publish to the destination.
func Baselines(queueType string) []Subject {
	subjects := []Subject{
		{Backend: baseline.BitEntry, About: "a topic exchange and a queue for each bit of a delay, entered at its highest bit, as NServiceBus does"},
		{Backend: TopEntry, About: "the same, entered at the top whatever the delay, as Celery does"},
		{Backend: baseline.PerMessageTTL, Blocks: true, About: "one queue; the delay is the message's own expiration"},
		{Backend: MixedTiers, Blocks: true, About: "four such queues, for delays up to 1, 5, 10 and 20 s"},
		{Backend: baseline.Undelayed, Undelayed: true, About: "published to the destination at once: the floor"},
	}
	for i := range subjects {
		s := &subjects[i]
		config := func(env Env) baseline.Config {
			return baseline.Config{
				URL: env.URL, Name: s.Backend, Prefix: env.Prefix, QueueType: queueType, Destination: env.Destination,
				Tick: env.Tick,
			}
		}
		s.QueueType, s.Baseline = queueType, true
		s.Open = func(ctx context.Context, env Env) (delayer.Delayer, error) {
			return baseline.Open(ctx, config(env))
		}
		s.Remove = func(ctx context.Context, env Env) error { return baseline.Remove(ctx, config(env)) }
	}
	return subjects
}

// Names of baselines that are treated apart.
const (
	MixedTiers = baseline.MixedTiers // measured only where it is asked for
	TopEntry   = baseline.TopEntry   // takes so few messages a second that scenario rate takes minutes
)

// OpenClient opens a plain client: it publishes to an exchange that reads the header x-delay. What is due there comes to the exchange behind, to which the destination is
// bound. Both must be there.
func OpenClient(ctx context.Context, env Env, exchange, behind string) (delayer.Delayer, error) {
	return baseline.Open(ctx, baseline.Config{
		URL: env.URL, Name: baseline.XDelay, Prefix: env.Prefix, Destination: env.Destination,
		Exchange: exchange, Behind: behind,
	})
}
