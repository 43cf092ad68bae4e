package rabbit

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFreePorts_Reserved: a port is nobody else's although no broker listens there yet.
func TestFreePorts_Reserved(t *testing.T) {
	ports, err := freePorts(3)
	require.NoError(t, err)
	for _, port := range ports {
		address := net.JoinHostPort(loopback, strconv.Itoa(port))
		_, err := reserve(address)
		require.Error(t, err)
		listener, err := net.Listen("tcp", address)
		require.NoError(t, err, "it is free for the broker")
		require.NoError(t, listener.Close())
	}
}
