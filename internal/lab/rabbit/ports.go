package rabbit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the ranges that systems give to outgoing connections (32768 and up on
// Linux, 49152 on macOS): otherwise somebody's connection could take ours while the broker is down.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// reserved are UDP sockets on the numbers of the ports that this process has handed out. Nobody
// uses them for UDP. They keep other processes that start brokers from the same ports, also before
// the broker listens and while it is down. They are closed when the process ends.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// freePorts returns n different ports of the loopback interface that nobody listens on, and that
// nobody else gets from this function while this process lives.
func freePorts(n int) ([]int, error) {
	reserved.Lock()
	defer reserved.Unlock()
	ports := make([]int, 0, n)
	for attempt := 0; attempt < 100*n; attempt++ {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		socket, err := reserve(net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		reserved.sockets = append(reserved.sockets, socket)
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("rabbit: no %d free ports between %d and %d", n, lowestPort, highestPort)
}

// reserve holds an address unless somebody has it.
func reserve(address string) (net.PacketConn, error) {
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, listener.Close()
}

const loopback = "127.0.0.1"
