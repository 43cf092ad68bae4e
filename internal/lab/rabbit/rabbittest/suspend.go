package rabbittest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// Suspend makes a quorum queue of the vhost "/" confirm nothing and deliver nothing, as one that has
// lost the majority of its replicas, until resume is called or the test ends. It is for a single
// node, on which the queue is one process.
func Suspend(t testing.TB, b *rabbit.Broker, queue string) (resume func()) {
	t.Helper()
	if !b.Owned() {
		Skipf(t, "needs rabbitmqctl to suspend a queue")
	}
	do := func(what string) error {
		_, err := b.Ctl(context.WithoutCancel(t.Context()), "eval", fmt.Sprintf("ok = sys:%s('%%2F_%s').", what, queue))
		return err
	}
	require.NoError(t, do("suspend"))
	resume = func() { require.NoError(t, do("resume")) }
	t.Cleanup(func() { _ = do("resume") }) // the queue may be gone
	return resume
}
