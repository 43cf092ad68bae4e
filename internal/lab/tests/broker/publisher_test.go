package broker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

func noReset() {}

func TestPublish_MissingExchange(t *testing.T) {
	t.Parallel()
	reset := make(chan struct{}, 1)
	p, c := open(t, rabbittest.Broker(t).URL(), func() { reset <- struct{}{} })
	queue := declare(t, c, nil)
	ctx := within(t)
	lost := to(queue)
	lost.Exchange = "nowhere"

	err := p.PublishDirect(ctx, lost)
	require.ErrorIs(t, err, delayer.ErrUnroutable)
	require.ErrorContains(t, err, "404 NOT_FOUND")
	require.ErrorIs(t, p.Publish(ctx, lost), broker.ErrReturned, "the first message tells of an exchange of ours")
	require.NoError(t, p.Publish(ctx, to(queue)))
	require.Empty(t, reset)
	require.NoError(t, p.PublishDirect(ctx, to(queue)), "the channel comes back")
	require.NoError(t, p.Publish(ctx, to(queue)), "the next is not the first of its channel")

	require.ErrorIs(t, p.Publish(ctx, lost), delayer.ErrUnknown)
	require.NoError(t, p.Publish(ctx, to(queue)))
	<-reset // our own exchanges may be what is missing
}

// TestPublish_MemoryAlarm has a memory alarm block the connection: Publish obeys ctx, Close
// returns.
func TestPublish_MemoryAlarm(t *testing.T) {
	b := rabbittest.Alone(t)
	p, c := open(t, b.URL(), noReset)
	queue := declare(t, c, nil)
	ctx := within(t)
	require.NoError(t, p.Publish(ctx, to(queue)), "the broker blocks a connection that publishes")
	alarm(t, b, "0")

	// The broker tells its connections of the alarm when the command has ended, so that some may be
	// stored yet. The first that is not finds out that the connection is blocked.
	var err error
	require.Eventually(t, func() bool {
		err = p.Publish(short(t), to(queue))
		return errors.Is(err, delayer.ErrNotSent) && strings.Contains(err.Error(), "memory or disk alarm")
	}, time.Minute, time.Millisecond, "what is not sent can be withdrawn")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, c.Do(ctx, func(ch *amqp091.Channel) error { return ch.Qos(1, 0, false) }), "control is not blocked")

	for range 2 { // the second finds the channel full of what the first has withdrawn
		var all sync.WaitGroup
		brief := short(t)
		for range 1100 { // more than a channel has slots
			all.Go(func() { assert.ErrorIs(t, p.Publish(brief, to(queue)), delayer.ErrNotSent) })
		}
		all.Wait()
	}

	alarm(t, b, "0.6")
	require.NoError(t, p.Publish(ctx, to(queue)), "publishing goes on by itself")
}

func alarm(t *testing.T, b *rabbit.Broker, watermark string) {
	t.Helper()
	_, err := b.Ctl(within(t), "set_vm_memory_high_watermark", watermark)
	require.NoError(t, err)
}

func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
