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
	log   []Steps
}

// A process reads the log while it runs.
type process struct {
	*Clock
	f    *fakeBroker
	read int
	wall atomic.Int64 // by which its machine's wall clock was set
}

// A waiting message has a due time of the broker's, reckoned when its clock showed since at most.
type waiting struct {
	due       time.Time // in truth
	since, at time.Time
}

// act plays a simulation in a bubble.
func act(t *testing.T, test func(s *simulation)) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t}
		test(s)
	})
}

// start starts a process and lets it learn the time.
func (s *simulation) start() *process {
	f := &fakeBroker{ahead: s.ahead, there: time.Millisecond}
	p := &process{f: f}
	wall := func(now time.Time) time.Time { return now.Round(0).Add(time.Duration(p.wall.Load())) }
	p.Clock = newClock(Config{Prefix: "p", Logger: slog.New(slog.DiscardHandler), Wall: wall}, f)
	p.read = max(0, len(s.log)-1) // only the end
	p.catchUp(s.log)
	p.began()
	var run sync.WaitGroup
	run.Go(func() { p.Run(s.t.Context()) })
	s.t.Cleanup(func() {
		run.Wait()
		f.flying.Wait()
	})
	s.all = append(s.all, p)
	s.pass(20 * time.Second)
	return p
}

func (p *process) catchUp(log []Steps) {
	for ; p.read < len(log); p.read++ {
		p.heard(log[p.read])
	}
}

// set sets the broker's clock.
func (s *simulation) set(by time.Duration) {
	s.ahead += by
	for _, p := range s.all {
		p.f.set(func() { p.f.ahead = s.ahead })
	}
}

// pass lets time pass. Steps are recorded and read.
func (s *simulation) pass(d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		time.Sleep(100 * time.Millisecond)
		for _, p := range s.all {
			if known := p.settled(); known.total() > s.recorded().total() {
				s.log = append(s.log, known)
			}
			p.catchUp(s.log)
		}
	}
}

// recorded is the end of the log.
func (s *simulation) recorded() Steps {
	if len(s.log) == 0 {
		return nil
	}
	return s.log[len(s.log)-1]
}

// publish returns a message that waits from now on.
func (s *simulation) publish(by *process, delay time.Duration) waiting {
	s.t.Helper()
	r, ok := by.Read()
	require.True(s.t, ok)
	return waiting{due: time.Now().Add(delay), since: r.Latest, at: r.From.Add(delay)}
}

// delivered requires that a process takes a message for due when it is, and not later than that by
// atMost.
func (s *simulation) delivered(by *process, w waiting, atMost time.Duration) {
	s.t.Helper()
	for {
		r, ok := by.Read()
		if ok && !w.at.Add(r.Steps.Shift(w.since)).After(r.Earliest) {
			break
		}
		require.LessOrEqual(s.t, time.Since(w.due), atMost, "it is late")
		s.pass(100 * time.Millisecond)
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
		require.Empty(t, s.log)
	})
}

// TestSimulation_SetForward: messages of before, of a publisher that has not noticed, and of after.
func TestSimulation_SetForward(t *testing.T) {
	for _, by := range []time.Duration{200 * time.Millisecond, 5 * time.Second, time.Minute, time.Hour, 100 * 24 * time.Hour} {
		act(t, func(s *simulation) {
			publisher, controller := s.start(), s.start()
			soon, later := s.publish(publisher, 2*time.Second), s.publish(publisher, 10*time.Minute)
			s.set(by)
			s.delivered(controller, soon, 2*time.Second)
			unaware := s.publish(publisher, 8*time.Minute)
			s.pass(time.Minute)
			known, ok := controller.Read()
			require.True(t, ok)
			require.Len(t, known.Steps, 1)
			require.InDelta(t, by.Seconds(), known.Steps[0].By.Seconds(), 0.03)
			s.pass(NoticedWithin)
			aware := s.publish(publisher, time.Minute)
			s.delivered(controller, aware, exact)
			again := s.start() // it has seen nothing of it
			s.delivered(again, unaware, exact)
			s.delivered(again, later, exact)
			s.delivered(again, s.publish(again, time.Second), exact)
		})
	}
}

// TestSimulation_AwareAtOnce: a message that is published shortly after a step is late by no more
// than the step, if that was short, and not at all otherwise.
func TestSimulation_AwareAtOnce(t *testing.T) {
	for by, late := range map[time.Duration]time.Duration{10 * time.Second: 10 * time.Second, time.Hour: 0} {
		act(t, func(s *simulation) {
			publisher, controller := s.start(), s.start()
			s.set(by)
			s.pass(30 * time.Second)
			s.delivered(controller, s.publish(publisher, time.Minute), late+exact)
		})
	}
}

func TestSimulation_SetForwardAgain(t *testing.T) {
	act(t, func(s *simulation) {
		publisher, controller := s.start(), s.start()
		old := s.publish(publisher, 20*time.Minute)
		s.set(time.Hour)
		s.pass(5 * time.Minute)
		between := s.publish(publisher, 15*time.Minute)
		s.set(time.Minute)
		s.pass(2 * time.Second)
		s.set(3 * time.Second) // while the step before is still being measured
		s.pass(5 * time.Minute)
		s.delivered(controller, between, exact+time.Second)
		s.delivered(s.start(), old, exact+2*time.Second)
	})
}

// TestSimulation_StartedBetween: a process starts after a step and before that is recorded, and is
// alone when the clock is set again.
func TestSimulation_StartedBetween(t *testing.T) {
	act(t, func(s *simulation) {
		s.start()
		s.set(time.Hour)
		s.pass(100 * time.Millisecond)
		require.Empty(t, s.log)
		alone := s.start()
		s.pass(5 * time.Minute)
		require.NotEmpty(t, s.log)
		s.all = []*process{alone}
		w := s.publish(alone, 20*time.Minute)
		s.set(30 * time.Minute)
		s.delivered(alone, w, exact+time.Second)
	})
}

// TestSimulation_SetBack: what waits is late by as much, and what is published in the next two
// minutes.
func TestSimulation_SetBack(t *testing.T) {
	act(t, func(s *simulation) {
		publisher, controller := s.start(), s.start()
		old := s.publish(publisher, time.Minute)
		s.set(-30 * time.Second)
		s.pass(20 * time.Second)
		soon := s.publish(publisher, 20*time.Second)
		s.delivered(controller, soon, 30*time.Second+exact)
		s.delivered(controller, old, 30*time.Second+exact)
		s.pass(NoticedWithin)
		s.delivered(controller, s.publish(publisher, 20*time.Second), exact)
		require.Empty(t, s.log)
	})
}

// TestSimulation_SetBackUnnoticed: the publisher has noticed it, and who delivers has not.
func TestSimulation_SetBackUnnoticed(t *testing.T) {
	act(t, func(s *simulation) {
		publisher, controller := s.start(), s.start()
		controller.f.set(func() { controller.f.lose = 100 })
		s.set(-30 * time.Second)
		s.pass(25 * time.Second)
		s.delivered(controller, s.publish(publisher, 20*time.Second), exact)
		controller.f.set(func() { controller.f.lose = 0 })
		s.pass(NoticedWithin)
		s.delivered(controller, s.publish(publisher, 20*time.Second), exact)
	})
}

// TestSimulation_SetByLittle: a step that no question tells makes nothing early.
func TestSimulation_SetByLittle(t *testing.T) {
	act(t, func(s *simulation) {
		publisher, controller := s.start(), s.start()
		w := s.publish(publisher, time.Minute)
		s.set(2 * time.Millisecond)
		s.pass(time.Minute - 100*time.Millisecond)
		for range 1000 {
			r, ok := controller.Read()
			require.True(t, ok)
			require.Empty(t, r.Steps, "it is not noticed")
			if time.Now().Before(w.due) {
				require.True(t, w.at.After(r.Earliest), "it is early")
			}
			time.Sleep(200 * time.Microsecond)
		}
		s.delivered(controller, w, exact)
	})
}

// TestSimulation_SetWhileDisconnected: the consumers are lost, and the broker comes back with
// another time.
func TestSimulation_SetWhileDisconnected(t *testing.T) {
	for _, by := range []time.Duration{300 * time.Millisecond, 30 * time.Second} {
		act(t, func(s *simulation) {
			publisher, controller := s.start(), s.start()
			old := s.publish(publisher, time.Minute)
			publisher.f.cut()
			controller.f.cut()
			s.set(by)
			s.delivered(controller, old, exact+2*time.Second)
			s.delivered(s.start(), s.publish(publisher, time.Second), by+exact)
		})
	}
}

// TestSimulation_PublisherHearsNothing: it uses the time of before for a minute, and then none.
func TestSimulation_PublisherHearsNothing(t *testing.T) {
	act(t, func(s *simulation) {
		publisher, controller := s.start(), s.start()
		publisher.f.set(func() { publisher.f.lose = 100 })
		s.set(5 * time.Second)
		s.pass(50 * time.Second)
		unaware := s.publish(publisher, time.Minute)
		s.delivered(controller, unaware, exact)
		_, ok := publisher.Read()
		require.False(t, ok)
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
				s.pass(200 * time.Millisecond)
			}
			s.pass(20 * time.Second)
			s.delivered(controller, s.publish(publisher, time.Second), exact)
			require.Empty(t, s.recorded())
		})
	}
}
