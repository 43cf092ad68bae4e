package broker

import (
	"sync"
	"time"
)

// Outages decides what to log about lost connections: one line when the first is lost, one a minute
// at most while any is missing, and one when all are back. The connections of one Delayer share
// one. The zero value is ready.
type Outages struct {
	mu      sync.Mutex
	missing int       // connections that are lost
	logged  time.Time // when the last line was logged
}

// logEvery is the least time between two lines during an outage.
const logEvery = time.Minute

// began notes that a connection is lost, and reports whether to log it.
func (o *Outages) began(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.missing++
	if o.missing > 1 {
		return false
	}
	o.logged = now
	return true
}

// lasts notes that an attempt to connect failed, and reports whether to log it.
func (o *Outages) lasts(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.logged) < logEvery {
		return false
	}
	o.logged = now
	return true
}

// ended notes that a lost connection is back or was closed, and reports whether it was the last.
func (o *Outages) ended() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.missing--
	return o.missing == 0
}
