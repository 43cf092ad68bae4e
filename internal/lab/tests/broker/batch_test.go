package broker_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// together publishes messages as one batch, and returns the results.
func together(ctx context.Context, t *testing.T, p *broker.Publisher, messages ...broker.Publishing) []error {
	t.Helper()
	results, calls := make([]error, len(messages)), make([]int, len(messages))
	b := p.NewBatch(func(i int, err error) {
		results[i] = err
		calls[i]++
	})
	for i, m := range messages {
		b.Publish(ctx, i, m)
	}
	b.Flush(ctx)
	for i, n := range calls {
		require.Equal(t, 1, n, "results of message %d", i)
	}
	return results
}

func many(n int, msg func(i int) broker.Publishing) []broker.Publishing {
	messages := make([]broker.Publishing, n)
	for i := range messages {
		messages[i] = msg(i)
	}
	return messages
}

func TestBatch_Outcomes(t *testing.T) {
	t.Parallel()
	p, c := open(t, rabbittest.Broker(t).URL(), noReset)
	queue := declare(t, c, nil)
	full := declare(t, c, amqp091.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	require.NoError(t, p.Publish(within(t), to(full)))
	const messages = 3000
	results := together(within(t), t, p, many(messages, func(i int) broker.Publishing {
		switch {
		case i%1000 == 500:
			m := to("q")
			m.Exchange, m.Direct = "nowhere", true // closes a channel, where no other message is
			return m
		case i%10 == 1:
			return to(queue + ".nowhere")
		case i%10 == 2:
			return to(full)
		}
		return to(queue)
	})...)
	stored := 0
	for i, err := range results {
		switch {
		case i%1000 == 500:
			require.ErrorIs(t, err, delayer.ErrUnroutable)
			require.ErrorContains(t, err, "404 NOT_FOUND")
		case i%10 == 1:
			require.ErrorIs(t, err, delayer.ErrUnroutable)
			require.ErrorIs(t, err, broker.ErrReturned)
		case i%10 == 2:
			require.ErrorIs(t, err, delayer.ErrRefused)
		default:
			require.NoError(t, err, "message %d", i)
			stored++
		}
	}
	require.Equal(t, stored, count(t, c, queue), "nil means stored")
}

// TestBatch_Concurrent: together the batches want more than all slots of their channel.
func TestBatch_Concurrent(t *testing.T) {
	t.Parallel()
	p, c := open(t, rabbittest.Broker(t).URL(), noReset)
	queue := declare(t, c, nil)
	const batches, messages = 5, 1500
	require.NoError(t, p.Publish(within(t), to(queue)))
	var wg sync.WaitGroup
	for range batches {
		wg.Go(func() {
			for i, err := range together(within(t), t, p, many(messages, func(int) broker.Publishing { return to(queue) })...) {
				if err != nil {
					t.Errorf("message %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, batches*messages+1, count(t, c, queue))
}

// TestBatch_Bounded has a broker that hardly answers: a batch goes no further than its unconfirmed
// messages.
func TestBatch_Bounded(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	_, c := open(t, b.URL(), noReset)
	queue := declare(t, c, nil)
	proxy, address := proxied(t)
	p, _ := open(t, at(t, address), noReset)
	require.NoError(t, p.Publish(within(t), to(queue)))
	proxy.Set(faults.Slow)

	const messages = 2000
	ctx, begun, results := short(t), 0, make([]error, messages)
	batch := p.NewBatch(func(i int, err error) { results[i] = err })
	for i := range messages {
		if ctx.Err() == nil {
			begun++
		}
		batch.Publish(ctx, i, to(queue))
	}
	batch.Flush(ctx)
	var confirmed, unknown int // the broker hears some
	for i, err := range results {
		switch {
		case err == nil:
			confirmed++
		case errors.Is(err, delayer.ErrUnknown):
			unknown++
		default:
			require.ErrorIs(t, err, delayer.ErrNotSent, "message %d", i)
		}
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded, "message %d", i)
		}
	}
	require.LessOrEqual(t, begun-confirmed, 513, "messages that were begun before ctx ended")
	require.Positive(t, unknown)

	proxy.Set(faults.Pass)
	require.NoError(t, p.Publish(within(t), to(queue)), "the slots are free again")
	stored := count(t, c, queue) - 2
	require.GreaterOrEqual(t, stored, confirmed, "nil means stored")
	require.LessOrEqual(t, stored, confirmed+unknown, "nothing that was not sent arrived")
}
