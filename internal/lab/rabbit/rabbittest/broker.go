package rabbittest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// A Logbook is a log that a test reads while it is written. The zero value is empty and ready for
// use.
type Logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger writes into the logbook.
func (l *Logbook) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// ShowIfFailed shows what was logged when a test ends that has failed. what says what it is.
func (l *Logbook) ShowIfFailed(t testing.TB, what string) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", what, l)
		}
	})
}

func (l *Logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Evidence logs, if the test has failed, what the broker knows of messages that did not come: the
// queues, and the processes that dead-letter at least once. Such a process may have died and left
// its queue alone (rabbitmq-server issue 16652): [Main] prints what the broker complained of. Call
// it before the topology is removed.
func Evidence(t testing.TB, b *rabbit.Broker) {
	t.Helper()
	if !t.Failed() || !b.Owned() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
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

// Cut makes the broker close the connections whose names begin with name, and no others. It is an
// error if there are none.
func Cut(ctx context.Context, b *rabbit.Broker, name string) error {
	count, err := b.Ctl(ctx, "eval", fmt.Sprintf(`length([rabbit_networking:close_connection(P, "test") || `+
		`P <- rabbit_networking:connections(), `+
		`[{client_properties, About}] <- [(catch rabbit_reader:info(P, [client_properties]))], is_list(About), `+
		`{<<"connection_name">>, _, Name} <- About, binary:longest_common_prefix([Name, <<"%[1]s">>]) == %[2]d]).`,
		name, len(name)))
	if err == nil && strings.TrimSpace(count) == "0" {
		err = fmt.Errorf("the broker has no connection %s", name)
	}
	return err
}

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

// Open opens a Delayer that is closed, and whose topology is removed, when the test ends.
func Open(t testing.TB, cfg backend.Config) delayer.Delayer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	d, err := backend.Open(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, d.Close())
		Remove(t, cfg)
	})
	return d
}

// Remove deletes the topology of a configuration, with all messages. Its Delayers must be closed.
// An exchange of the user's is left alone.
func Remove(t testing.TB, cfg backend.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	const withMessages = true
	if err := backend.Remove(ctx, cfg, withMessages); !errors.Is(err, delayer.ErrConfig) {
		assert.NoError(t, err)
	}
}
