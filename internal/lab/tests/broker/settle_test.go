package broker_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// TestApply_CrashRightAfter: what is confirmed right after its queue was declared is there after a
// crash.
func TestApply_CrashRightAfter(t *testing.T) {
	b := rabbittest.Alone(t)
	queue := rabbittest.Prefix(t)
	_, c := open(t, b.URL(), func() {})
	plan := topology.Plan{Queues: []topology.Queue{{Name: queue, Args: amqp091.Table{"x-queue-type": "quorum"}}}}
	r := rabbittest.NewRig(t, b)
	require.NoError(t, objects.Of(c, "test").Apply(within(t), plan))
	r.Publish("", queue, amqp091.Publishing{Body: []byte("confirmed"), DeliveryMode: amqp091.Persistent})
	require.NoError(t, b.Kill())
	require.NoError(t, b.Run(t.Context()))
	r = rabbittest.NewRig(t, b)
	require.Equal(t, "confirmed", string(r.Take(queue).Body))
}

// TestApply_SettleRefused: a user who may declare the queue of the plan, and no other, declares it.
func TestApply_SettleRefused(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	queue := rabbittest.Prefix(t)
	plan := topology.Plan{Queues: []topology.Queue{{Name: queue, Args: amqp091.Table{"x-queue-type": "quorum"}}}}
	for _, configure := range []string{"^" + queue + "$", "^" + queue} {
		_, c := open(t, rabbittest.User(t, b, b.URL(), configure, "^$", "^"+queue), func() {})
		live := objects.Of(c, "test")
		require.NoError(t, live.Apply(within(t), plan), configure)
		queues, err := b.Ctl(within(t), "list_queues", "name")
		require.NoError(t, err)
		require.NotContains(t, queues, queue+".settle.")
		require.NoError(t, live.Remove(within(t), plan))
	}
}

// TestApply_Order: who finds the queues and the exchanges of a plan finds queues that have their
// TTL. They are settled after they were declared, and before the exchange is. See
// [objects.Live.Apply].
func TestApply_Order(t *testing.T) {
	t.Parallel()
	queue := rabbittest.Prefix(t)
	sent := &wire{}
	_, c := open(t, through(t, rabbittest.Broker(t).URL(), sent), noReset)
	live := objects.Of(c, "test")
	plan := topology.Plan{
		Exchanges: []topology.Exchange{{Name: queue + ".enter", Kind: amqp091.ExchangeDirect}},
		Queues:    []topology.Queue{objects.WaitingQueue(queue, delayer.Quorum, time.Second, queue+".next")},
		Bindings:  []topology.Binding{{Source: queue + ".enter", Key: "wait", Target: queue}},
	}
	t.Cleanup(func() { require.NoError(t, live.Remove(within(t), plan)) })
	settles := func(do func(context.Context, topology.Plan) error) bool {
		sent.take()
		require.NoError(t, do(within(t), plan))
		text := sent.take()
		if _, rest, looked := bytes.Cut(text, []byte("stream")); looked { // for the feature flag, first of all
			text = rest
		}
		settled := bytes.Index(text, []byte(queue+".settle."))
		bound := bytes.LastIndex(text, []byte("wait"))
		require.Less(t, settled, bound, "the binding is last: %q", text)
		if settled < 0 {
			return false
		}
		require.Less(t, bytes.Index(text, []byte("x-message-ttl")), settled, "the queue is first: %q", text)
		require.Equal(t, 2, bytes.Count(text[settled:], []byte(queue+".enter")), "the exchange is declared and bound then: %q", text)
		return true
	}
	require.True(t, settles(live.Apply), "all is missing")
	require.False(t, settles(live.Apply), "all is there")
	require.True(t, settles(live.Restore), "all is there, but was not before")
	require.NoError(t, c.Do(within(t), func(ch *amqp091.Channel) error {
		return ch.ExchangeDelete(queue+".enter", false, waitForAnswer)
	}))
	require.True(t, settles(live.Apply), "another process is not as far yet")
}

// through returns a URL whose connections are forwarded to a broker, until the test ends. sent gets
// what clients send.
func through(t *testing.T, broker string, sent io.Writer) string {
	t.Helper()
	at, err := url.Parse(broker)
	require.NoError(t, err)
	host := at.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	pass := func(to io.WriteCloser, from io.Reader) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", host)
			if err != nil {
				_ = client.Close()
				continue
			}
			go pass(server, io.TeeReader(client, sent))
			go pass(client, server)
		}
	}()
	at.Host = l.Addr().String()
	return at.String()
}

// A wire keeps what a client sends.
type wire struct {
	mu   sync.Mutex
	sent bytes.Buffer
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent.Write(b)
}

func (w *wire) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.sent.Reset()
	return bytes.Clone(w.sent.Bytes())
}
