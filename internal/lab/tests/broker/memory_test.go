package broker_test

import (
	"bytes"
	"errors"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestPublish_CallersMemory: a Publish that leaves while its message is being written
// leaves nothing behind that reads the body or a header. The broker reads slowly.
func TestPublish_CallersMemory(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	_, c := open(t, b.URL(), noReset)
	queue := declare(t, c, nil)
	proxy, address := proxied(t)
	p, _ := open(t, at(t, address), noReset)

	const size = 15 << 20 // far more than the sockets buffer, less than any max_message_size
	body, header := bytes.Repeat([]byte("a"), size), []byte("aaaa")
	msg := sealed(queue, amqp091.Publishing{Body: body, Headers: amqp091.Table{"k": []any{amqp091.Table{"bytes": header}}}})
	require.NoError(t, p.Publish(within(t), to(queue)))
	proxy.Set(faults.Slow)
	for err := p.Publish(short(t), msg); !errors.Is(err, delayer.ErrUnknown); err = p.Publish(short(t), msg) {
		require.ErrorIs(t, err, delayer.ErrNotSent, "the writer had not come to it")
	}
	copy(body, bytes.Repeat([]byte("b"), size))
	copy(header, "bbbb")
	proxy.Set(faults.Pass)
	got := received(t, b.URL(), queue, 2)
	require.Len(t, got, 2)
	require.Equal(t, size, bytes.Count(got[1].Body, []byte("a")))
	require.Equal(t, []any{amqp091.Table{"bytes": []byte("aaaa")}}, got[1].Headers["k"])
}
