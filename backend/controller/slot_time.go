package controller

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A clock knows the broker's time. ok is false while it does not.
type clock interface {
	Read() (r brokertime.Reading, ok bool)
}

// A brokerClock is a clock that is given later.
type brokerClock struct {
	atomic.Pointer[clock]
	missed atomic.Int64 // the reading when its time was awaited in vain first; 0: it is known
}

func (c *brokerClock) set(to clock) { c.Store(&to) }

func (c *brokerClock) read() (r brokertime.Reading, ok bool) {
	if known := c.Load(); known != nil {
		return (*known).Read()
	}
	return r, false
}

// awaitFor is longer than an answer of the broker's usually takes. A clock knows nothing until the
// next one if this machine's clock was set.
const awaitFor = 100 * time.Millisecond

// await waits for the time to be known. Where it does not become known that is not done again for
// each message.
func (c *brokerClock) await(ctx context.Context) {
	const every = 2 * time.Millisecond
	for ctx.Err() == nil {
		if _, ok := c.read(); ok {
			c.missed.Store(0)
			return
		}
		now := int64(reading(time.Now()))
		c.missed.CompareAndSwap(0, now)
		if now-c.missed.Load() >= int64(awaitFor) {
			return
		}
		time.Sleep(every)
	}
}

// dueAt is the due time of a stamp by the broker's clock of now, which may have been set forward
// since the stamp was written.
func dueAt(s stamp, r brokertime.Reading) time.Time {
	return time.UnixMilli(s.at).Add(r.Steps.Shift(time.UnixMilli(s.since)))
}

// ceilMillis is a time in ms, rounded up.
func ceilMillis(t time.Time) int64 {
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		return t.UnixMilli() + 1
	}
	return t.UnixMilli()
}

// A seat is where a message waits, and its stamp.
type seat struct {
	exchange string
	key      string
	stamp    stamp
	slot     wheel.Slot
	reads    time.Time     // by the broker's clock: a controller takes the message from there then
	wait     time.Duration // the width of the slot
	before   time.Time     // it must be written by then
}

// seat places a message with a routing key that has this long to wait. Its stamp's due time by the
// broker's clock is kept if there is one. While the broker's time is unknown it goes to the intake,
// and a controller places it.
func (b blueprint) seat(c *brokerClock, key string, s stamp, remaining time.Duration) seat {
	now := time.Now()
	at, since := s.at, s.since
	s = s.restamp(now, remaining, 0)
	s.at, s.since = at, since
	r, ok := c.read()
	if !ok {
		return seat{exchange: b.names.enter(), key: key, stamp: s}
	}
	if s.at == 0 {
		s.at, s.since = ceilMillis(r.From.Add(remaining)), ceilMillis(r.Latest)
	}
	s.key = &key
	turn := b.wheel.Place(r.Earliest, dueAt(s, r))
	slot := b.wheel.Slot(turn)
	return seat{
		exchange: b.names.enterSlots(), key: b.slotKey(slot), stamp: s, slot: slot,
		reads: b.wheel.Reads(turn), wait: b.wheel[turn.Level].Width, before: now.Add(b.wheel.WriteBy(turn).Sub(r.Latest)),
	}
}

// left is how much of the delay is left. The process that wrote the stamp knows it by its own clock,
// and others by the broker's. ok is false if a message names a time of the broker's, which is
// unknown. One that does not has waited since it came here.
func (m incoming) left(c *brokerClock) (remaining time.Duration, ok bool) {
	now := time.Now()
	switch {
	case m.stamp.clock == clockID:
		return m.stamp.due - reading(now), true
	case m.stamp.at == 0:
		return m.stamp.hop + m.stamp.left - now.Sub(m.came), true
	}
	r, ok := c.read()
	return dueAt(m.stamp, r).Sub(r.Earliest), ok
}

// late reports whether a message that was confirmed just now may have come when its slot was at rest.
func (p seat) late() bool { return !p.before.IsZero() && time.Now().After(p.before) }
