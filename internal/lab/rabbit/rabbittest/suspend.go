package rabbittest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// Suspend is [rabbit.Broker.Suspend] until resume is called or the test ends.
func Suspend(t testing.TB, b *rabbit.Broker, queue string) (resume func()) {
	t.Helper()
	if !b.Owned() {
		Skipf(t, "needs rabbitmqctl to suspend a queue")
	}
	ctx := context.WithoutCancel(t.Context())
	again, err := b.Suspend(ctx, queue)
	require.NoError(t, err)
	resume = func() { require.NoError(t, again(ctx)) }
	t.Cleanup(func() { _ = again(ctx) }) // the queue may be gone
	return resume
}
