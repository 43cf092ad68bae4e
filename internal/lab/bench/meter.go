package bench

import (
	"context"
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

const (
	// settling is how long a node that has just started may still be busy: one of 3.10.8 used 30 % of
	// a core after five seconds, and a hundredth of that after ten.
	settling = 10 * time.Second
	// idleWindow is how long the broker is watched doing nothing. Processor time is counted in steps
	// of about 10 ms, and a node does something every few seconds.
	idleWindow = 10 * time.Second
	// IdleFor is how long Run watches a broker before it measures.
	IdleFor = settling + idleWindow
)

// A measurable tells what a broker uses, as [rabbit.Broker] does. An error: it is not known.
type measurable interface {
	CPU() (time.Duration, error)
	RSS() (int64, error)
	Disk() (int64, error)
}

type meter struct {
	broker measurable
	idle   float64 // processor seconds per second while nothing happens
}

// newMeter watches the idle broker for idleWindow, once that has settled.
func newMeter(ctx context.Context, broker measurable) meter {
	m := meter{broker: broker}
	if !m.read().ok || pace.Sleep(ctx, settling) != nil {
		return m
	}
	if start := m.read(); pace.Sleep(ctx, idleWindow) == nil {
		if end := m.read(); start.ok && end.ok {
			m.idle = (end.cpu - start.cpu).Seconds() / end.at.Sub(start.at).Seconds()
		}
	}
	return m
}

type reading struct {
	at  time.Time
	cpu time.Duration
	ok  bool          // cpu is known
	own time.Duration // of this process; 0 if it is not known
}

func (m meter) read() reading {
	own := processCPU()
	cpu, err := m.broker.CPU()
	return reading{at: time.Now(), cpu: cpu, ok: err == nil, own: own}
}

// weigh reads the broker's memory and disk in bytes; 0 is not known.
func (m meter) weigh() (memory, disk int64) {
	memory, _ = m.broker.RSS()
	disk, _ = m.broker.Disk()
	return memory, disk
}

// processCPU is the processor time that this process has used, user and system; 0 if not known.
func processCPU() time.Duration {
	self, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return 0
	}
	used, err := self.Times()
	if err != nil {
		return 0
	}
	return time.Duration((used.User + used.System) * float64(time.Second))
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
