package rabbittest

import (
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// Between returns a URL whose connections are forwarded to a broker, until the test ends. seen is
// told what passes, by several goroutines: on which connection, which are counted from 1, and whether
// it goes to the broker.
func Between(t testing.TB, broker string, seen func(connection int, toBroker bool, b []byte)) string {
	t.Helper()
	u, err := url.Parse(broker)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	host := u.Host
	pass := func(to, from net.Conn, connection int, toBroker bool) {
		defer to.Close() //nolint:errcheck // the other direction may have
		for buf := make([]byte, 64<<10); ; {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			seen(connection, toBroker, buf[:n])
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for connection := 1; ; connection++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", host)
			if err != nil {
				_ = client.Close()
				continue
			}
			go pass(server, client, connection, true)
			go pass(client, server, connection, false)
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}
