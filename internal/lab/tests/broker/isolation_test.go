package broker_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// innocents publishes messages that nothing is wrong with until the test is over, and fails if one
// is not confirmed. It returns once some are.
func innocents(t *testing.T, publish func(context.Context, broker.Publishing) error, queue string) (stop func()) {
	t.Helper()
	const publishers = 16
	ctx := within(t)
	done, confirmed := make(chan struct{}), make(chan struct{}, publishers)
	var wg sync.WaitGroup
	for range publishers {
		wg.Go(func() {
			for {
				if err := publish(ctx, to(queue)); err != nil {
					t.Errorf("an innocent message: %v", err)
				}
				select {
				case confirmed <- struct{}{}:
				default:
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range publishers {
		<-confirmed
	}
	return func() { close(done); wg.Wait() }
}

// sealed is a message to a queue, as the engine sends it.
func sealed(queue string, msg amqp091.Publishing) broker.Publishing {
	return broker.Publishing{Key: queue, Message: message.Seal(msg, message.NewEnvelope(time.Now(), 0, ""), nil)}
}

// TestPublish_LargeBody: the broker closes the channel over it, and says how much it takes.
func TestPublish_LargeBody(t *testing.T) {
	t.Parallel()
	b := rabbittest.Own(t, rabbit.Options{Config: "max_message_size = 100000"})
	p, c := open(t, b.URL(), noReset)
	queue := declare(t, c, nil)
	stop := innocents(t, p.Publish, queue)
	stopDirect := innocents(t, p.PublishDirect, queue)
	ctx := within(t)
	sized := func(n int) broker.Publishing { return sealed(queue, amqp091.Publishing{Body: make([]byte, n)}) }
	for _, publish := range []func(context.Context, broker.Publishing) error{p.Publish, p.PublishDirect} {
		require.NoError(t, publish(ctx, sized(100_000)))
		for range 3 {
			err := publish(ctx, sized(100_001))
			require.ErrorIs(t, err, delayer.ErrInvalid)
			require.ErrorContains(t, err, "100000", "it names the limit")
		}
	}
	stop()
	stopDirect()

	// The size of a frame is that of the connections there are.
	cfg := backend.Config{Options: delayer.Options{URL: b.URL(), Prefix: rabbittest.Prefix(t), Logger: slog.New(slog.DiscardHandler)}}
	d := rabbittest.Open(t, cfg)
	msg := amqp091.Publishing{Headers: amqp091.Table{"h": strings.Repeat("x", 10_000)}}
	_, err := b.Ctl(ctx, "eval", "application:set_env(rabbit, frame_max, 8192).")
	require.NoError(t, err)
	require.NoError(t, rabbittest.Cut(ctx, b, "delayer "+cfg.Prefix))
	require.NoError(t, d.Publish(ctx, "", queue, time.Hour, amqp091.Publishing{}))
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.ErrorContains(t, d.Publish(ctx, "", queue, time.Hour, msg), "fit into one frame of 8192")
	}, patience, 10*time.Millisecond)
}

// TestPublish_RefusingExchange: one that is internal, or missing. The channel that a refusal has
// closed takes no message with it. Of 3,000 one was not sent before that was so.
func TestPublish_RefusingExchange(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	p, c := open(t, r.Broker.URL(), noReset)
	queue := declare(t, c, nil)
	ctx, internal := within(t), internalExchange(r, queue)
	stop := innocents(t, p.PublishDirect, queue)
	refused := to(queue)
	refused.Exchange = internal
	for range 3 {
		require.ErrorIs(t, p.PublishDirect(ctx, refused), delayer.ErrAccess)
	}
	stop()
	refused.Exchange = internal + ".nowhere"
	for range 300 {
		require.ErrorIs(t, p.PublishDirect(ctx, refused), delayer.ErrUnroutable)
	}
}
