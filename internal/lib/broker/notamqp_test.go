package broker

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

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
