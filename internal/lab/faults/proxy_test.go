package faults

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An ending is what a connection was sent, and how it ended.
type ending struct {
	data []byte
	err  error
}

// echo answers every byte, and tells how each connection has ended.
func echo(t *testing.T) (address string, ended <-chan ending) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	ends := make(chan ending, 16)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close() //nolint:errcheck // the other side may have closed it
				var e ending
				buffer := make([]byte, 1024)
				for e.err == nil {
					var n int
					n, e.err = conn.Read(buffer)
					e.data = append(e.data, buffer[:n]...)
					if _, err := conn.Write(buffer[:n]); err != nil {
						e.err = err // the system tells of a reset once
					}
				}
				ends <- e
			}()
		}
	}()
	return l.Addr().String(), ends
}

func through(t *testing.T) (p *Proxy, dial func() net.Conn, ended <-chan ending) {
	t.Helper()
	address, ended := echo(t)
	p, err := NewProxy("amqp://127.0.0.1:1/", "amqp://"+address+"/")
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, func() net.Conn {
		conn, err := net.Dial("tcp", p.listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}, ended
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := conn.Write([]byte(text))
	require.NoError(t, err)
}

func hear(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func TestAProxyPassesAndCuts(t *testing.T) {
	p, dial, ended := through(t)
	conn := dial()
	say(t, conn, "hello")
	hear(t, conn, "hello")
	assert.EqualValues(t, len("hello"), p.Asked(), "without the answer")
	p.Cut()
	_, err := conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	assert.ErrorIs(t, (<-ended).err, io.EOF)
	say2 := dial()
	say(t, say2, "again")
	hear(t, say2, "again")
}

func TestHalfOpenSwallowsAndStaysSo(t *testing.T) {
	p, dial, _ := through(t)
	conn := dial()
	say(t, conn, "hello")
	hear(t, conn, "hello")
	p.Set(HalfOpen)
	say(t, conn, "lost")
	p.Set(Pass)
	fresh := dial()
	say(t, fresh, "new")
	hear(t, fresh, "new")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "no byte, no FIN, no RST: %v", err)
}

func TestSlowIsAboutAKilobyteASecond(t *testing.T) {
	p, dial, _ := through(t)
	conn := dial()
	p.Set(Slow)
	began := time.Now()
	text := string(make([]byte, 256))
	say(t, conn, text)
	hear(t, conn, text)
	assert.GreaterOrEqual(t, time.Since(began), 150*time.Millisecond, "four pieces, with a rest after each")
}

func TestAResetCutsAFrame(t *testing.T) {
	p, dial, ended := through(t)
	conn := dial()
	say(t, conn, "x")
	hear(t, conn, "x")
	p.ResetMidFrame()
	say(t, conn, "pay\xce\xce\xce\xce\xce")
	_, _ = io.Copy(io.Discard, conn) // ends
	e := <-ended
	assert.True(t, errors.Is(e.err, syscall.ECONNRESET) || errors.Is(e.err, syscall.EPIPE), "RST, not FIN: %v", e.err)
	assert.Equal(t, "xpay", string(e.data), "a part, and not up to a frame's end")
	assert.Equal(t, 3, midFrame([]byte("pay\xce\xce\xce\xce\xce")), "a whole frame is none in the middle")
}

func TestAProxyThatIsDownRefuses(t *testing.T) {
	p, _, _ := through(t)
	p.Set(Down)
	conn, err := net.Dial("tcp", p.listener.Addr().String())
	if err == nil {
		defer conn.Close() //nolint:errcheck // it is closed already
		_, err = conn.Read(make([]byte, 1))
	}
	require.Error(t, err)
}
