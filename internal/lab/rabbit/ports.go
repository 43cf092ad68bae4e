package rabbit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the ranges that systems give to outgoing connections (32768 and up on
// Linux, 49152 on macOS): otherwise a connection could take ours while the broker is down.
const (
	lowestPort  = 20000
	highestPort = 32000
	loopback    = "127.0.0.1"
)

// reserved are UDP sockets on the numbers of the ports that this process has handed out. They keep
// other processes that start brokers from the same ports, also while the broker is down. They are
// closed when the process ends.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// freePorts returns n different ports of the loopback interface that nobody listens on, and that
// nobody else gets from this function while this process lives.
func freePorts(n int) (ports []int, err error) {
	reserved.Lock()
	defer reserved.Unlock()
	for attempt := 0; len(ports) < n && attempt < 100*n; attempt++ {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		address := net.JoinHostPort(loopback, strconv.Itoa(port))
		socket, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		reserved.sockets = append(reserved.sockets, socket)
		if listener, err := net.Listen("tcp", address); err == nil && listener.Close() == nil {
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("rabbit: no %d free ports between %d and %d", n, lowestPort, highestPort)
	}
	return ports, nil
}
