package broker_test

import (
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

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
