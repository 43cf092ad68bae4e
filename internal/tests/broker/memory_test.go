package broker_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// TestPublish_CallersMemory: a Publish that leaves while its message is being written
// leaves nothing behind that reads the body or a header. The broker reads slowly: a proxy stops reading.
func TestPublish_CallersMemory(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	_, c := open(t, b.URL(), noReset)
	queue := declare(t, c, nil)
	host, stall, resume := stallable(t, b.URL())
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	u.Host = host
	p, _ := open(t, u.String(), noReset)

	const size = 15 << 20 // far more than the sockets buffer, less than any max_message_size
	body, header := bytes.Repeat([]byte("a"), size), []byte("aaaa")
	msg := sealed(queue, amqp091.Publishing{Body: body, Headers: amqp091.Table{"k": []any{amqp091.Table{"bytes": header}}}})
	require.NoError(t, p.Publish(within(t), to(queue)))
	stall()
	for err := p.Publish(short(t), msg); !errors.Is(err, delayer.ErrUnknown); err = p.Publish(short(t), msg) {
		require.ErrorIs(t, err, delayer.ErrNotSent, "the writer had not come to it")
	}
	copy(body, bytes.Repeat([]byte("b"), size))
	copy(header, "bbbb")
	resume()
	got := received(t, b.URL(), queue, 2)
	require.Len(t, got, 2)
	require.Equal(t, size, bytes.Count(got[1].Body, []byte("a")))
	require.Equal(t, []any{amqp091.Table{"bytes": []byte("aaaa")}}, got[1].Headers["k"])
}

// stallable forwards to the broker, and stops reading from its clients while it is stalled.
func stallable(t *testing.T, broker string) (host string, stall, resume func()) {
	t.Helper()
	u, err := url.Parse(broker)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var gate sync.RWMutex
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			_ = client.(*net.TCPConn).SetReadBuffer(64 << 10)
			server, err := net.Dial("tcp", u.Host)
			if err != nil {
				_ = client.Close()
				continue
			}
			forward := func(to, from net.Conn, wait func()) {
				defer to.Close()   //nolint:errcheck // the other direction may have
				defer from.Close() //nolint:errcheck // likewise
				for buf := make([]byte, 64<<10); ; {
					wait()
					n, err := from.Read(buf)
					if n == 0 && err != nil {
						return
					}
					if _, err := io.Copy(to, bytes.NewReader(buf[:n])); err != nil {
						return
					}
				}
			}
			wg.Go(func() { forward(server, client, func() { gate.RLock(); gate.RUnlock() }) }) //nolint:staticcheck // it waits
			wg.Go(func() { forward(client, server, func() {}) })
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { _ = l.Close() })
	resume = sync.OnceFunc(gate.Unlock)
	return l.Addr().String(), gate.Lock, resume
}
