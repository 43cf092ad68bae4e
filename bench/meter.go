package bench

import (
	"context"
	"time"
)

// idleWindow is how long the broker is watched doing nothing. Processor time is counted in steps of
// about 10 ms, so a shorter look would be a guess.
const idleWindow = 2 * time.Second

// A meter reads what the broker uses. Without a broker of our own it reads nothing, and says so.
type meter struct {
	broker Target
	idle   float64 // processor seconds per second while nothing happens
}

// newMeter watches the idle broker for idleWindow.
func newMeter(ctx context.Context, broker Target) meter {
	m := meter{broker: broker}
	start := m.read()
	if !start.ok {
		return m
	}
	select {
	case <-ctx.Done():
	case <-time.After(idleWindow):
		if end := m.read(); end.ok {
			m.idle = (end.cpu - start.cpu).Seconds() / (end.at.Sub(start.at)).Seconds()
		}
	}
	return m
}

type reading struct {
	at  time.Time
	cpu time.Duration
	ok  bool
	own time.Duration // of this process; 0 if it is not known
}

func (m meter) read() reading {
	own, _ := processCPU()
	if m.broker == nil {
		return reading{own: own}
	}
	cpu, err := m.broker.CPU()
	return reading{at: time.Now(), cpu: cpu, ok: err == nil, own: own}
}

// rss is the broker's memory in bytes, or 0 if that is not known.
func (m meter) rss() int64 {
	if m.broker == nil {
		return 0
	}
	bytes, err := m.broker.RSS()
	if err != nil {
		return 0
	}
	return bytes
}

// disk is the space that the broker's data takes in bytes, or 0 if that is not known.
func (m meter) disk() int64 {
	d, ok := m.broker.(DiskMeter)
	if !ok {
		return 0
	}
	bytes, err := d.Disk()
	if err != nil {
		return 0
	}
	return bytes
}

// perMessage is the processor time in microseconds that each of n messages took between two
// readings, beyond what the idle broker uses; 0 if it is not known.
func (m meter) perMessage(from, to reading, n int) float64 {
	if !from.ok || !to.ok || n == 0 {
		return 0
	}
	idle := m.idle * to.at.Sub(from.at).Seconds()
	return max(0, (to.cpu-from.cpu).Seconds()-idle) * 1e6 / float64(n)
}

// ownPerMessage is the processor time in microseconds that this process took for each of n
// messages: to publish it and receive it, and, where the subject works in this process, to delay
// it.
func ownPerMessage(from, to reading, n int) float64 {
	if n == 0 || from.own == 0 {
		return 0
	}
	return (to.own - from.own).Seconds() * 1e6 / float64(n)
}
