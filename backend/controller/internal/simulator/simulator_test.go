//go:build !race

// There is one goroutine a seed. The race detector finds nothing, and takes ten times as long.

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
	seeds = flag.Int("seeds", 2000, "how many to run")
)

// TestSimulate runs seeds of which none may have a problem. A seed that has one is run again alone:
// go test ./backend/controller/internal/simulator -run TestSimulate -v -seed N -trace.
func TestSimulate(t *testing.T) {
	t.Parallel()
	if *seed != 0 {
		o := options{Seed: *seed, mutant: chosen()}
		if *trace {
			o.Trace = os.Stdout
		}
		r := simulate(o)
		t.Logf("%+v", r.stats)
		for _, p := range r.Problems {
			t.Error(p)
		}
		return
	}
	var next, bad atomic.Uint64
	next.Store(*from)
	began := time.Now()
	var running sync.WaitGroup
	var mu sync.Mutex
	var all stats
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for bad.Load() < mostBad {
				s := next.Add(1) - 1
				if s >= *from+uint64(*seeds) {
					return
				}
				r := simulate(options{Seed: s, mutant: chosen()})
				if len(r.Problems) > 0 {
					bad.Add(1)
					t.Errorf("seed %d: %s", s, r.Problems[0])
				}
				mu.Lock()
				all.add(r.stats)
				mu.Unlock()
				if done := s - *from + 1; done%progressEvery == 0 {
					t.Logf("%d of %d seeds, %.0f a second", done, *seeds, float64(done)/time.Since(began).Seconds())
				}
			}
		})
	}
	running.Wait()
	took := time.Since(began)
	t.Logf("%.1f days in %.1f s: %.2f days a second; %+v", all.Simulated.Hours()/24, took.Seconds(), all.Simulated.Hours()/24/took.Seconds(), all)
}

const (
	mostBad       = 20 // seeds are enough to look at
	progressEvery = 10_000
)
