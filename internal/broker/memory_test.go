package broker

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// TestTheCallersMemoryIsNotReadAfterPublish: a Publish that leaves while its message is being written
// leaves nothing behind that reads the body or a header. The broker reads slowly: a proxy stops reading.
func TestTheCallersMemoryIsNotReadAfterPublish(t *testing.T) {
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

// TestWithdraw: a caller either takes its message back, or the writer has a copy of all that it reads.
func TestWithdraw(t *testing.T) {
	body, header := []byte("body"), []byte("header")
	list := []any{"x", header, amqp091.Table{"n": int64(1), "bytes": header}}
	given := amqp091.Table{"list": list, "text": "t"}
	req := func() *request {
		return &request{copied: true, msg: Publishing{Message: amqp091.Publishing{Body: body, Headers: given}}}
	}
	r := req()
	require.True(t, r.withdraw())
	_, ok := r.take(nil)
	require.False(t, ok)

	r = req()
	_, ok = r.take(nil)
	require.True(t, ok)
	require.False(t, r.withdraw())
	copy(body, "....")
	copy(header, "......")
	require.Equal(t, "body", string(r.msg.Message.Body))
	require.Equal(t, amqp091.Table{
		"list": []any{"x", []byte("header"), amqp091.Table{"n": int64(1), "bytes": []byte("header")}}, "text": "t",
	}, r.msg.Message.Headers)
	require.Equal(t, "......", string(list[1].([]byte)), "the caller's headers stay as they are")
}

// TestOutages goes through what is logged while connections are lost.
func TestOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Outages
		for range 2 { // one outage like the other
			require.True(t, o.began(time.Now()))
			require.False(t, o.began(time.Now()), "another connection, the same outage")
			lines := 0
			for range 600 { // ten minutes
				time.Sleep(time.Second)
				if o.lasts(time.Now()) {
					lines++
				}
			}
			require.Equal(t, 10, lines)
			require.False(t, o.ended())
			require.True(t, o.ended())
		}
		require.True(t, o.began(time.Now()))
		require.True(t, o.ended(), "a short one")
	})
}
