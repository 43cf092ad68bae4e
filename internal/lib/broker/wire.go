package broker

import (
	"net"
	"sync"
)

// A wire is a socket that can gather what is written to it. amqp091-go writes every message by
// itself. Messages that wait for one another go out together: one system call, and one for the
// broker.
type wire struct {
	net.Conn

	mu        sync.Mutex
	gatherers int    // that have not released
	gathered  []byte // not written yet
}

// mostGathered bounds what is kept: about fifty small messages.
const mostGathered = 16 << 10

// Write implements [net.Conn]. What is gathered comes first.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.gathered)+len(p) > mostGathered {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	if w.gatherers == 0 || len(p) > mostGathered {
		return w.Conn.Write(p)
	}
	w.gathered = append(w.gathered, p...)
	return len(p), nil
}

// flush writes what is gathered. The caller holds mu.
func (w *wire) flush() error {
	if len(w.gathered) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.gathered)
	w.gathered = w.gathered[:0]
	return err
}

// A gathering is one writer's use of a wire.
type gathering struct {
	wire *wire
	on   bool
}

// begin makes the wire gather until end.
func (g *gathering) begin() {
	if g.on {
		return
	}
	g.on = true
	g.wire.mu.Lock()
	defer g.wire.mu.Unlock()
	g.wire.gatherers++
}

// end writes what is gathered, also by others: among many writers there is always one that goes on.
// amqp091-go believes that it is written: if it cannot be, the socket is closed, which ends the
// connection.
func (g *gathering) end() {
	if !g.on {
		return
	}
	g.on = false
	w := g.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gatherers--
	if err := w.flush(); err != nil {
		_ = w.Close()
	}
}
