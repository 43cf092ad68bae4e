package rabbittest

import (
	"context"
	"testing"
	"time"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// Evidence logs, if the test has failed, what the broker knows of messages that did not come: the
// queues, and the processes that dead-letter at least once. Such a process may have died and left
// its queue alone (rabbitmq-server issue 16652): [Main] prints what the broker complained of. Call
// it before the topology is removed.
func Evidence(t testing.TB, b *rabbit.Broker) {
	t.Helper()
	if !t.Failed() || !b.Owned() {
		return
	}
	const enough = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	for _, ask := range [][]string{
		{"list_queues", "--silent", "name", "messages", "messages_ready", "messages_unacknowledged", "consumers", "state"},
		{"eval", `[io_lib:format("~p~n~0P~n", [P, catch sys:get_state(P, 1000), 60]) || ` +
			`{_, P, _, _} <- supervisor:which_children(rabbit_fifo_dlx_sup), is_pid(P)].`},
	} {
		said, err := b.Ctl(ctx, ask...)
		t.Logf("%s: %v\n%s", ask[0], err, said)
	}
}
