package broker

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// silentAfterStart is the address of a broker that greets a client, and never answers its login.
// Each login is told.
func silentAfterStart(t *testing.T) (url string, logins <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	told := make(chan struct{}, 100)
	greet := func(c net.Conn) {
		defer c.Close() //nolint:errcheck // the client has gone
		header := make([]byte, len("AMQP\x00\x00\x09\x01"))
		if _, err := io.ReadFull(c, header); err != nil {
			return
		}
		if _, err := c.Write(connectionStart()); err != nil {
			return
		}
		if _, err := io.ReadFull(c, header); err == nil { // the login has begun
			told <- struct{}{}
		}
		_, _ = io.Copy(io.Discard, c)
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go greet(c)
		}
	}()
	return "amqp://guest:guest@" + listener.Addr().String() + "/", told
}

// connectionStart is the first frame of a broker.
func connectionStart() []byte {
	const method, end = 1, 0xCE
	payload := []byte{0, 10, 0, 10, 0, 9, 0, 0, 0, 0} // connection.start, version 0-9, no properties
	for _, text := range []string{"PLAIN", "en_US"} {
		payload = binary.BigEndian.AppendUint32(payload, uint32(len(text)))
		payload = append(payload, text...)
	}
	frame := binary.BigEndian.AppendUint32([]byte{method, 0, 0}, uint32(len(payload)))
	return append(append(frame, payload...), end)
}

// TestDial_LoginNotAnswered: a login that was not answered in time was not refused.
func TestDial_LoginNotAnswered(t *testing.T) {
	t.Parallel()
	const deadline = 2 * time.Second // a busy machine logs in by then
	check := func(t *testing.T, err, cause error) {
		t.Helper()
		require.ErrorIs(t, err, delayer.ErrUnavailable)
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, "the broker has not answered the login (check user name and password, and give it more time: ")
	}
	for name, of := range map[string]func(url string) string{
		"one address":   func(url string) string { return url },
		"two addresses": func(url string) string { return url + "," + url },
	} {
		t.Run("deadline, "+name, func(t *testing.T) {
			t.Parallel()
			url, _ := silentAfterStart(t)
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			_, err := Dial(ctx, Options{URL: of(url)})
			check(t, err, context.DeadlineExceeded)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		url, logins := silentAfterStart(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-logins
			cancel()
		}()
		_, err := Dial(ctx, Options{URL: url})
		check(t, err, context.Canceled)
	})
	t.Run("the socket's deadline, and no ctx", func(t *testing.T) {
		t.Parallel()
		url, _ := silentAfterStart(t)
		all, err := parseURLs(url)
		require.NoError(t, err)
		_, err = dial(t.Context(), all[0], Options{}, time.Now().Add(deadline))
		require.ErrorIs(t, err, errLogin)
	})
}
