package broker

import (
	"net"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
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

	written *amqp091.DeferredConfirmation // the last message,
	sent    *amqp091.DeferredConfirmation // and the last when it last ended,
	at      time.Time                     // which was then
	late    *time.Timer
}

func newGathering(w *wire) gathering { return gathering{wire: w, late: time.NewTimer(gatherFor)} }

// gatherFor is how long what comes is gathered while the broker has not confirmed what went out before.
// Each write wakes the broker several times, and has a quorum queue write to disk. Who publishes one
// message after the other does not wait: the one before is confirmed.
const gatherFor = time.Millisecond

// idle is called when there is nothing to write. It ends the gathering, or returns what will end it.
func (g *gathering) idle() (late <-chan time.Time, confirmed <-chan struct{}) {
	if g.on && g.sent != nil {
		if left := gatherFor - time.Since(g.at); left > 0 {
			g.late.Reset(left)
			return g.late.C, g.sent.Done()
		}
	}
	g.end()
	return nil, nil
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
	g.on, g.sent, g.at = false, g.written, time.Now()
	w := g.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gatherers--
	if err := w.flush(); err != nil {
		_ = w.Close()
	}
}
