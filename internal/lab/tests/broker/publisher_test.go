package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
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

// TestPublish_RefusalRenewsChannel: the broker may refuse on a channel what it takes on another. It
// lists the channels of all connections, so it runs beside no other test.
func TestPublish_RefusalRenewsChannel(t *testing.T) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to list channels")
	}
	channels := func() []string { // that await confirms: publishing ones
		out, err := b.Ctl(within(t), "list_channels", "--quiet", "--no-table-headers", "pid", "confirm")
		require.NoError(t, err)
		var pids []string
		for _, line := range strings.Split(out, "\n") {
			if pid, publishes, _ := strings.Cut(strings.TrimSpace(line), "\t"); publishes == "true" {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	reset := make(chan struct{}, 1)
	p, c := open(t, b.URL(), func() { reset <- struct{}{} })
	full := declare(t, c, amqp091.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	ctx := within(t)
	require.NoError(t, p.Publish(ctx, to(full)))
	const channelsOfAPublisher = 2 // one for exchanges of ours, and one that is lent to destinations
	var before []string
	require.Eventually(t, func() bool { before = channels(); return len(before) == channelsOfAPublisher }, time.Minute, 100*time.Millisecond,
		"those of the test before are gone")

	require.ErrorIs(t, p.Publish(ctx, to(full)), delayer.ErrRefused)
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		require.ErrorIs(ct, p.Publish(ctx, to(full)), delayer.ErrRefused)
		now := channels()
		require.Len(ct, now, len(before))
		require.NotEqual(ct, before, now, "one channel in place of another")
	}, rabbittest.Patience, 100*time.Millisecond)
	require.Empty(t, reset, "nothing was lost")
}

// sized is a message to a queue whose body has so many bytes.
func sized(queue string, n int) broker.Publishing {
	return sealed(queue, amqp091.Publishing{Body: make([]byte, n)})
}

// TestStuck_Many: more callers than a channel has slots, to a queue that has answered until then.
// The broker would stop reading the whole connection if all of their messages were sent.
func TestStuck_Many(t *testing.T) {
	t.Parallel()
	p, c := open(t, rabbittest.Broker(t).URL(), noReset)
	stuck, good := declare(t, c, amqp091.Table{"x-queue-type": "quorum"}), declare(t, c, nil)
	require.NoError(t, p.Publish(within(t), to(good)))
	require.NoError(t, p.PublishDirect(within(t), to(good)))
	require.NoError(t, p.PublishDirect(within(t), to(stuck)))
	rabbittest.Suspend(t, rabbittest.Broker(t), stuck)
	ctx, cancel := context.WithTimeout(within(t), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var unknown atomic.Int64
	for range 1100 {
		wg.Go(func() {
			err := p.PublishDirect(ctx, to(stuck))
			if errors.Is(err, delayer.ErrUnknown) {
				unknown.Add(1)
			} else if !errors.Is(err, delayer.ErrNotSent) {
				t.Errorf("to a queue that does not answer: %v", err)
			}
		})
	}
	both := func() {
		t.Helper()
		soon, cancel := context.WithTimeout(t.Context(), patience) // long, on a busy machine
		defer cancel()
		require.NoError(t, p.Publish(soon, to(good)))
		require.NoError(t, p.PublishDirect(soon, to(good)))
	}
	for ctx.Err() == nil {
		both()
	}
	wg.Wait()
	both() // nor afterwards
	require.Positive(t, unknown.Load())
	require.LessOrEqual(t, unknown.Load(), int64(128), "they were sent")
}

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
