package faults_test

import (
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/faults"
)

// TestProxy: each mode does to connections what it says.
func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // a test's
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // it answers every byte
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	p, err := faults.NewProxy("amqp://" + l.Addr().String())
	require.NoError(t, err)
	defer p.Close()
	dial := func() net.Conn {
		at, err := url.Parse(p.URL("amqp://host/"))
		require.NoError(t, err)
		conn, err := net.Dial("tcp", at.Host)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	echo := func(conn net.Conn, text string) {
		t.Helper()
		_, err := conn.Write([]byte(text))
		require.NoError(t, err)
		got := make([]byte, len(text))
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
		_, err = io.ReadFull(conn, got)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	conn := dial()
	echo(conn, "passes")
	p.Cut()
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err, "it is closed")

	conn = dial()
	echo(conn, "again")
	p.Set(faults.HalfOpen)
	_, err = conn.Write([]byte("lost"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "no byte, and not closed: %v", err)

	p.Set(faults.Slow)
	conn = dial()
	began := time.Now()
	echo(conn, string(make([]byte, 512)))
	require.GreaterOrEqual(t, time.Since(began), 400*time.Millisecond)

	p.Set(faults.Down)
	if conn, err = net.Dial("tcp", l.Addr().String()); err == nil { // the broker is there
		_ = conn.Close()
	}
	at, err := url.Parse(p.URL("amqp://host/"))
	require.NoError(t, err)
	_, err = net.Dial("tcp", at.Host)
	require.Error(t, err)
	p.Set(faults.Pass)
	echo(dial(), "is back")
}
