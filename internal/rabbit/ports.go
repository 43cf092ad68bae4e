package rabbit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the ranges that systems give to outgoing connections (32768 and up on
// Linux, 49152 on macOS): otherwise somebody's connection could take ours while the broker is down.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// freePorts returns n different ports of the loopback interface that nobody listens on.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for attempt := 0; attempt < 100*n; attempt++ {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		// Held until all are found, so that no port is found twice.
		defer func() { _ = listener.Close() }()
		ports = append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("rabbit: no %d free ports between %d and %d", n, lowestPort, highestPort)
}

const loopback = "127.0.0.1"
