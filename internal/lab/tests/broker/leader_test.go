package broker_test

import (
	"context"
	"fmt"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// TestPublish_ToAStreamWhoseLeaderIsReplaced: RabbitMQ before 4.0 confirms what it does not store,
// if a channel that writes to a stream also writes elsewhere (rabbit_stream_queue:resend_all/1).
func TestPublish_ToAStreamWhoseLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to kill the leader of a stream")
	}
	p, c := open(t, b.URL(), func() {})
	ctx := within(t)
	queue, stream := declare(t, c, nil), declare(t, c, amqp091.Table{"x-queue-type": "stream"})
	for range 50 {
		require.NoError(t, p.PublishDirect(ctx, to(queue)))
	}
	toStream := to(stream)
	toStream.Stream = stream
	require.NoError(t, p.PublishDirect(ctx, toStream))
	returned := to("no such queue")
	returned.Stream = stream
	require.ErrorIs(t, p.PublishDirect(ctx, returned), broker.ErrReturned)

	eval := func(program string, args ...any) {
		t.Helper()
		_, err := b.Ctl(ctx, "eval", fmt.Sprintf(program, args...))
		require.NoError(t, err)
	}
	// The leader stores nothing more, and dies.
	eval(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%[1]s">>)), Leader = amqqueue:get_pid(Q), Self = self(),
		spawn(fun() -> register('%[1]s', self()), erlang:suspend_process(Leader), Self ! ready, receive die -> exit(Leader, kill) end end),
		receive ready -> ok end.`, stream)
	written, confirmed := make(chan struct{}), make(chan error, 1)
	unconfirmed := toStream
	unconfirmed.Written = func() { close(written) }
	go func() { confirmed <- p.PublishDirect(ctx, unconfirmed) }()
	<-written
	eval(`'%s' ! die.`, stream)
	const more = 30
	for range more {
		require.NoError(t, p.PublishDirect(ctx, toStream))
	}

	conn, err := broker.Dial(ctx, options(t, b.URL()))
	require.NoError(t, err)
	defer conn.Close()
	reading, stop := context.WithTimeout(ctx, patience)
	defer stop()
	stored := 0
	broker.Stream{Queue: stream, Offset: "first", Again: func() { stored = 0 }, Failed: func(err error) { t.Error(err) }, Take: func([]byte) {
		if stored++; stored == 2+more {
			stop()
		}
	}}.Read(reading, conn)
	require.Equal(t, 2+more, stored, "of those that were confirmed, and one")
	require.NoError(t, <-confirmed)
}
