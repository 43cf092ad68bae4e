package broker_test

import (
	"io"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestCut_Handshake: a connection that has not said who it is yet is none of those to be cut.
func TestCut_Handshake(t *testing.T) {
	b := rabbittest.Alone(t)
	at, err := url.Parse(b.URL())
	require.NoError(t, err)
	conn, err := net.Dial("tcp", at.Host)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte("AMQP\x00\x00\x09\x01"))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1)) // connection.start: the broker waits for our name
	require.NoError(t, err)
	require.ErrorContains(t, rabbittest.Cut(t.Context(), b, "nobody"), "the broker has no connection nobody")
}
