package simulator

import (
	"flag"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("seed", 0, "run this seed alone")
	trace = flag.Bool("trace", false, "print each event of it")
	from  = flag.Uint64("from", 1, "the first seed")
	seeds = flag.Int("seeds", 800, "how many to run")
)

// TestSimulate runs seeds of which none may have a problem. A seed that has one is run again alone:
// go test ./backend/controller/internal/simulator -run TestSimulate -v -seed N -trace.
func TestSimulate(t *testing.T) {
	withoutRaceDetector(t)
	if *seed != 0 {
		o := Options{Seed: *seed}
		if *trace {
			o.Trace = os.Stdout
		}
		r := Run(o)
		t.Logf("%+v", r.Stats)
		for _, p := range r.Problems {
			t.Error(p)
		}
		return
	}
	var next, bad atomic.Uint64
	next.Store(*from)
	began := time.Now()
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for bad.Load() < mostBad {
				s := next.Add(1) - 1
				if s >= *from+uint64(*seeds) {
					return
				}
				if r := Run(Options{Seed: s}); len(r.Problems) > 0 {
					bad.Add(1)
					t.Errorf("seed %d: %s", s, r.Problems[0])
				}
				if done := s - *from + 1; done%progressEvery == 0 {
					t.Logf("%d of %d seeds, %.0f a second", done, *seeds, float64(done)/time.Since(began).Seconds())
				}
			}
		})
	}
	running.Wait()
}

const (
	mostBad       = 20 // seeds are enough to look at
	progressEvery = 10_000
)

// withoutRaceDetector: make test runs this package without it. There is one goroutine a seed.
func withoutRaceDetector(t *testing.T) {
	if raceDetector {
		t.Skip("it runs without the race detector: scripts/test.sh")
	}
}
