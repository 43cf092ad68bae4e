package backend_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// pieces are what strange names and keys are made of: our own form, wildcards, separators, and
// characters that something might read otherwise.
var pieces = []string{"~d", "~d:", ":=", ">0", "0>end", ".", "#", "*", "x", "q", "é", "\x00", " ", "'", "\"", "%", "/", "~", "=", "amq.", "\n"}

func strange(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// TestPublish_StrangeNames publishes under random names, keys and headers: what arrives is where it
// was sent, or nowhere.
func TestPublish_StrangeNames(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.QueueType = "classic"
	cfg.BinaryLadder = binaryladder.Config{Tick: 10 * time.Millisecond, Steps: "10ms,20ms,40ms,80ms"}
	d, ch := rabbittest.Open(t, cfg), channel(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	base := rabbittest.Prefix(t)
	const queues, messages = 6, 200
	type arrival struct {
		at string
		m  amqp091.Delivery
	}
	in := make(chan arrival, 10*messages)
	var names []string
	for range queues {
		name := strings.ReplaceAll(base+strange(r), "\n", "") // which the broker would do
		if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
			ch = channel(t) // not every name is one to the broker
			continue
		}
		t.Cleanup(func() { _, _ = channel(t).QueueDelete(name, false, false, false) })
		names = append(names, name)
	}
	names = append(names, base)
	t.Cleanup(func() { _, _ = channel(t).QueueDelete(base, false, false, false) })
	consumer := channel(t)
	_, err := consumer.QueueDeclare(base, true, false, false, false, nil)
	require.NoError(t, err)
	for _, name := range names {
		from, err := consumer.Consume(name, "", true, false, false, false, nil)
		require.NoError(t, err)
		go func() {
			for m := range from {
				in <- arrival{name, m}
			}
		}()
	}
	expected := map[string]string{}
	for i := range messages {
		id, key := string(rune('a'+i%26))+time.Duration(i).String(), names[r.IntN(len(names))]
		if r.IntN(3) == 0 {
			key = []string{"~d", base}[r.IntN(2)] + strange(r) // not a queue of somebody else's
		}
		headers := amqp091.Table{strange(r): strange(r)}
		if r.IntN(4) == 0 {
			headers["x-delayer-stamp"], headers["x-death"], headers["x-delayer"] = strange(r), strange(r), strange(r)
		}
		err := d.Publish(within(t), "", key, 20*time.Millisecond, amqp091.Publishing{MessageId: id, Headers: headers})
		if err == nil {
			expected[id] = key
			continue
		}
		require.True(t, errors.Is(err, delayer.ErrUnroutable) || errors.Is(err, delayer.ErrInvalid), "key %q: %v", key, err)
	}
	require.NotEmpty(t, expected)
	ctx := within(t)
	for len(expected) > 0 {
		select {
		case a := <-in:
			key, ours := expected[a.m.MessageId]
			require.True(t, ours, "%q came to %q twice, or was refused", a.m.MessageId, a.at)
			require.Equal(t, key, a.at)
			require.Equal(t, key, a.m.RoutingKey)
			delete(expected, a.m.MessageId)
		case <-ctx.Done():
			t.Fatalf("missing: %q", expected)
		}
	}
}
