package broker

import (
	"net"
	"sync"
	"time"
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
	many int // messages since it began

	ended time.Time // the last
	crowd float64   // how many messages were unconfirmed at a time, lately
	late  *time.Timer
}

func newGathering(w *wire) gathering { return gathering{wire: w, late: time.NewTimer(gatherFor)} }

const (
	// gatherFor is how long what comes is gathered after a write: each write wakes the broker
	// several times, and has a quorum queue write to disk. Half of a crowd does not wait: the other
	// half may be waiting for its confirms before it publishes again. So who publishes one message
	// after the other never waits.
	gatherFor = time.Millisecond
	// remembered is how much of a larger crowd counts after each write: of a hundred one is left
	// after some 200 writes.
	remembered = 0.98
)

// idle is called when there is nothing to write, with how many messages are unconfirmed. It ends
// the gathering, or returns what says when to call it again.
func (g *gathering) idle(unconfirmed int64) (late <-chan time.Time) {
	if !g.on {
		return nil
	}
	if left := gatherFor - time.Since(g.ended); left > 0 && float64(g.many) < g.crowd/2 {
		g.late.Reset(left)
		return g.late.C
	}
	g.crowd = max(float64(unconfirmed), remembered*g.crowd)
	g.end()
	return nil
}

// begin makes the wire gather until end. It is called before each message.
func (g *gathering) begin() {
	g.many++
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
	g.on, g.many, g.ended = false, 0, time.Now()
	w := g.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gatherers--
	if err := w.flush(); err != nil {
		_ = w.Close()
	}
}
