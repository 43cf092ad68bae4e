package broker

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
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

func TestParseURLs(t *testing.T) {
	for list, want := range map[string]string{
		"amqp://u:p@one/": "amqp://one:5672/",
		" amqp://one/v , amqps://two:99/v,amqp://[::1]/v ":    "amqp://one:5672/v, amqps://two:99/v, amqp://[::1]:5672/v",
		"amqp://u:comma,in,it@one/,amqp://u:p%2Camqp@two:1/":  "amqp://one:5672/, amqp://two:1/",
		"amqp://one?heartbeat=5,amqp://two?frame_max=131072":  "amqp://one:5672/, amqp://two:5672/",
		"amqp://guest:other@one/,\n  amqp://guest:guest@two/": "amqp://one:5672/, amqp://two:5672/",
	} {
		all, err := parseURLs(list)
		require.NoError(t, err, list)
		require.Equal(t, want, endpoints(all), list)
	}
	for list, want := range map[string]string{
		"":                                   "empty",
		"amqp://one/a,amqp://one/b":          `the addresses differ in vhost or user name (amqp://one:5672/a and amqp://one:5672/b)`,
		"amqp://a:p@one/,amqp://b:p@two/":    "list the nodes of one cluster",
		"amqp://u:hunter2@one:5672,two:5672": "write each address in full",
		"amqp://u:hunter2@one/,http://two/":  `scheme "http" is not AMQP`,
		"amqp://u:hun%ter2@one/":             "percent-encode reserved characters",
		"amqp://u:hunter2@one:port/":         "malformed",
		"amqps://one/?auth_mechanism=magic":  `auth_mechanism "magic" is not known`,
	} {
		_, err := parseURLs(list)
		require.ErrorIs(t, err, delayer.ErrConfig, list)
		require.ErrorContains(t, err, want, list)
		require.NotContains(t, err.Error(), "ter2", list)
	}
}

func TestUser(t *testing.T) {
	for list, want := range map[string]string{
		"amqp://one/":      "guest",
		"amqp://ann:p@one": "ann",
		"amqps://one/?auth_mechanism=external,amqps://two/?auth_mechanism=EXTERNAL": "", // the certificate's
		"amqps://ann@one/?auth_mechanism=external":                                  "ann",
		"amqps://one/?auth_mechanism=plain":                                         "guest",
	} {
		all, err := parseURLs(list)
		require.NoError(t, err, list)
		require.Equal(t, want, all[0].uri.Username, list)
	}
}

// TestDial_MuteHost: one that accepts and says nothing costs its share of the time, no more.
func TestDial_MuteHost(t *testing.T) {
	soon := func(d time.Duration, left int) time.Duration {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return time.Until(attemptDeadline(ctx, left)).Round(100 * time.Millisecond)
	}
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, 4*time.Second, soon(12*time.Second, 3))
		require.Equal(t, 12*time.Second, soon(12*time.Second, 1))
		require.Equal(t, dialTimeout/3, soon(time.Hour, 2))
		require.Equal(t, dialTimeout, soon(time.Hour, 1))
		require.Equal(t, dialTimeout, time.Until(attemptDeadline(context.Background(), 1)))
	})
}

// TestDial_NotAMQP: the management API, given as the broker's address, waits for a request of HTTP
// and then hangs up.
func TestDial_NotAMQP(t *testing.T) {
	t.Parallel()
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer hangsUp.Close() //nolint:errcheck // of a test
	go func() {
		for {
			conn, err := hangsUp.Accept()
			if err != nil {
				return
			}
			const amqpHeader = 8
			_, _ = conn.Read(make([]byte, amqpHeader))
			_ = conn.Close()
		}
	}()
	_, err = Dial(t.Context(), Options{URL: "amqp://guest:guest@" + hangsUp.Addr().String()})
	require.ErrorIs(t, err, delayer.ErrUnavailable)
	require.ErrorContains(t, err, "is this its AMQP port (5672, or 5671 with amqps://), not the management API's (15672)?")
}
