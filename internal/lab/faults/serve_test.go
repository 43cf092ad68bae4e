package faults

import (
	"context"
	"os/exec"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestClients: they publish with headers, say what they know of the outcome, and connect again.
func TestClients(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, url string) client{
		"pika": func(t *testing.T, url string) client {
			by := python()
			if by == "" {
				rabbittest.Skipf(t, "there is no Python with pika here (make install-clients)")
			}
			c, err := startPika(by, url)
			require.NoError(t, err)
			return c
		},
		"Go": func(_ *testing.T, url string) client { return &plain{url: url} },
	} {
		t.Run(name, func(t *testing.T) {
			b := rabbittest.Broker(t)
			r := rabbittest.NewRig(t, b)
			queue := rabbittest.Prefix(t)
			r.Declare(queue, nil)
			require.NoError(t, r.Ch.QueueBind(queue, queue, "amq.topic", false, nil))
			in := r.Consume(queue)
			c := open(t, b.URL())
			defer c.close()
			ctx, cancel := context.WithTimeout(t.Context(), rabbittest.Patience)
			defer cancel()
			q := request{Exchange: "amq.topic", Key: queue, Headers: map[string]any{"x-delay": 5}, Body: "a body"}
			require.NoError(t, c.publish(ctx, q))
			d := rabbittest.Next(t, in)
			assert.Equal(t, "a body", string(d.Body))
			assert.EqualValues(t, 5, d.Headers["x-delay"])
			assert.Equal(t, amqp091.Persistent, d.DeliveryMode)

			lost := q
			lost.Exchange = queue + "-nowhere"
			require.ErrorIs(t, c.publish(ctx, lost), delayer.ErrUnknown)
			require.NoError(t, c.publish(ctx, q), "on a connection or channel of its own")
			rabbittest.Next(t, in)

			down := open(t, "amqp://127.0.0.1:1/")
			defer down.close()
			soon, over := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer over()
			require.ErrorIs(t, down.publish(soon, q), delayer.ErrNotSent)
		})
	}
}

// TestService_StartsAgain: whatever ends it, and whoever has killed it waits for the next one to
// serve.
func TestService_StartsAgain(t *testing.T) {
	const says = "echo an exchange is served >&2; echo an exchange is served >&2; "
	sh := func(then string) *service {
		p := startService(func() *exec.Cmd { return exec.Command("sh", "-c", says+then) })
		t.Cleanup(p.close)
		return p
	}
	ends := sh("exit 1")
	require.NoError(t, ends.await(t.Context(), 0))
	require.NoError(t, ends.await(t.Context(), 2))

	stays := sh("exec sleep 600")
	require.NoError(t, stays.await(t.Context(), 0))
	n, err := stays.killed()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, stays.await(t.Context(), n))

	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, stays.await(over, n+1), "an exchange is served")
}

// TestJudgeTwice: a crash explains two copies of what was published before its end.
func TestJudgeTwice(t *testing.T) {
	m := course{ID: 7, Asked: time.Minute, Copies: 2}
	assert.Empty(t, judgeTwice([]course{m}, 2*time.Minute))
	assert.Equal(t, []string{"1 came twice that were published after the last crash: [7]"}, judgeTwice([]course{m}, time.Second))
	m.Copies = 1
	assert.Empty(t, judgeTwice([]course{m}, time.Second))
}
