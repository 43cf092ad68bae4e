package backend_test

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lab/subjects"
)

// entries are the calls by which a message gets into a Delayer. A method that is added to the
// interface belongs here.
var entries = map[string]func(t *testing.T, d delayer.Delayer, m delayer.Message) error{
	"Publish": func(t *testing.T, d delayer.Delayer, m delayer.Message) error {
		return d.Publish(within(t), m.Exchange, m.Key, m.Delay, m.Publishing)
	},
	"PublishBatch": func(t *testing.T, d delayer.Delayer, m delayer.Message) error {
		results := d.PublishBatch(within(t), []delayer.Message{m})
		require.Len(t, results, 1)
		return results[0]
	},
	"Schedule": func(t *testing.T, d delayer.Delayer, m delayer.Message) error {
		_, err := d.Schedule(within(t), m)
		return err
	},
}

// TestPublish_ReservedNames: no entry of any backend takes a message for an exchange or a queue of
// its own, where it would go round for ever or vanish.
func TestPublish_ReservedNames(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	for _, s := range subjects.Others() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			cfg := s.Config
			if subjects.InExchange(cfg) {
				rabbittest.NeedPlugin(t, "rabbitmq_delayed_message_exchange")
			}
			if subjects.Hides(cfg) {
				rabbittest.NeedHiding(t)
			}
			cfg.URL, cfg.Prefix, cfg.Logger = b.URL(), rabbittest.Prefix(t), silent
			d := rabbittest.Open(t, cfg)
			owned, err := backend.Topology(cfg)
			require.NoError(t, err)
			delays := []time.Duration{0, time.Second, time.Minute} // at once, in memory, in a queue
			if tiers := d.Limits().Tiers; len(tiers) > 0 {
				delays = []time.Duration{0, tiers[0]}
			}
			var messages []delayer.Message
			for _, delay := range delays {
				for _, x := range owned.AllExchanges() {
					messages = append(messages, delayer.Message{Exchange: x.Name, Key: "k", Delay: delay})
				}
				for _, q := range owned.Queues {
					messages = append(messages,
						delayer.Message{Key: q.Name, Delay: delay},
						delayer.Message{Key: "q", Delay: delay, Publishing: amqp091.Publishing{Headers: amqp091.Table{"CC": []any{q.Name}}}},
						delayer.Message{Key: "q", Delay: delay, Publishing: amqp091.Publishing{Headers: amqp091.Table{"BCC": []any{q.Name}}}},
					)
				}
			}
			for name, entry := range entries {
				if name == "Schedule" && d.Limits().CancelBefore == 0 {
					continue // it takes no message at all
				}
				for _, m := range messages {
					require.ErrorIs(t, entry(t, d, m), delayer.ErrInvalid, "%s of %+v", name, m)
				}
			}
		})
	}
}
