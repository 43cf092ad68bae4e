package brokertime

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A simulation has a broker whose clock may be set, and processes that ask it.
type simulation struct {
	t     *testing.T
	ahead time.Duration // of the broker's clock
	all   []*process
}

type process struct {
	*Clock
	f    *fakeBroker
	wall atomic.Int64 // by which its machine's wall clock was set
}

// A waiting message has a due time of the broker's.
type waiting struct {
	due time.Time // in truth
	at  time.Time
}

// act plays a simulation in a bubble.
func act(t *testing.T, test func(s *simulation)) {
	synctest.Test(t, func(t *testing.T) { test(&simulation{t: t}) })
}

// start starts a process and lets it learn the time.
func (s *simulation) start() *process {
	f := &fakeBroker{ahead: s.ahead, there: time.Millisecond}
	p := &process{f: f}
	p.Clock = newClock(Config{Prefix: "p", Logger: slog.New(slog.DiscardHandler)}, f)
	unset := p.interval.instant
	p.interval.instant = func(t time.Time) instant {
		now := unset(t)
		now.wall = now.wall.Add(time.Duration(p.wall.Load()))
		return now
	}
	var run sync.WaitGroup
	run.Go(func() { p.Run(s.t.Context()) })
	s.t.Cleanup(func() {
		run.Wait()
		f.flying.Wait()
	})
	s.all = append(s.all, p)
	time.Sleep(20 * time.Second)
	return p
}

// set sets the broker's clock.
func (s *simulation) set(by time.Duration) {
	s.ahead += by
	for _, p := range s.all {
		p.f.set(func() { p.f.ahead = s.ahead })
	}
}

// publish returns a message that waits from now on.
func (s *simulation) publish(by *process, delay time.Duration) waiting {
	s.t.Helper()
	r, ok := by.Read()
	require.True(s.t, ok)
	return waiting{due: time.Now().Add(delay), at: r.Latest.Add(delay)}
}

// delivered requires that a process takes a message for due when it is, and not later than that by
// atMost.
func (s *simulation) delivered(by *process, w waiting, atMost time.Duration) {
	s.t.Helper()
	for {
		r, ok := by.Read()
		if ok && !w.at.After(r.Earliest) {
			break
		}
		require.LessOrEqual(s.t, time.Since(w.due), atMost, "it is late")
		time.Sleep(100 * time.Millisecond)
	}
	require.GreaterOrEqual(s.t, time.Since(w.due), time.Duration(0), "it is early")
}

// exact is what two uncertainties and a look every 100 ms may cost.
const exact = 200 * time.Millisecond

func TestSimulation_AnHourOff(t *testing.T) {
	act(t, func(s *simulation) {
		s.ahead = -time.Hour
		a, b := s.start(), s.start()
		s.delivered(b, s.publish(a, time.Minute), exact)
	})
}

// TestSimulation_SetBack: what waits is late by as much.
func TestSimulation_SetBack(t *testing.T) {
	act(t, func(s *simulation) {
		publisher, controller := s.start(), s.start()
		old := s.publish(publisher, time.Minute)
		s.set(-30 * time.Second)
		s.delivered(controller, old, 30*time.Second+exact)
		s.delivered(controller, s.publish(publisher, 20*time.Second), exact)
	})
}

// TestSimulation_WallClockIsSet: that of the publisher's machine, or of the controller's. Each
// knows the time again after a round trip, if anyone asks it.
func TestSimulation_WallClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -time.Minute, 40 * time.Second, 20 * time.Hour} {
		act(t, func(s *simulation) {
			publisher, controller := s.start(), s.start()
			for range 10 { // at any moment between two questions
				for _, p := range s.all {
					p.wall.Add(int64(by))
					_, ok := p.Read()
					require.False(t, ok)
				}
				time.Sleep(3 * time.Millisecond) // the round trip takes one
				soon := s.publish(publisher, time.Second)
				s.delivered(controller, soon, 2*time.Second+exact)
				time.Sleep(200 * time.Millisecond)
			}
			time.Sleep(20 * time.Second)
			s.delivered(controller, s.publish(publisher, time.Second), exact)
		})
	}
}
