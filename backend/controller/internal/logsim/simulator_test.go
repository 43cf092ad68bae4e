//go:build !race

// There is one goroutine a seed. The race detector finds nothing, and takes ten times as long.

package logsim

import (
	"cmp"
	"flag"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seed  = flag.Uint64("seed", 0, "run this seed alone; with a mutant alone it is one that finds it")
	trace = flag.Bool("trace", false, "print each event of it")
	of    = flag.String("of", "", "trace this message alone, as m17, and what breaks")
	from  = flag.Uint64("from", 1, "the first seed")
	seeds = flag.Int("seeds", 1500, "how many to run")
)

// TestSimulate runs seeds of which none may have a problem. A seed that has one is run again alone,
// with a line for each event: make simulate SIMULATEFLAGS='-seed 21 -trace'. With -of m256 it is
// the lines of one message.
func TestSimulate(t *testing.T) {
	t.Parallel()
	m := chosen()
	if s := cmp.Or(*seed, m.seed); s != 0 {
		o := options{Seed: s, mutant: m}
		if *trace {
			o.Trace, o.Of = os.Stdout, *of
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
	var days, awake float64 // awake: without what was skipped
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for bad.Load() < mostBad {
				s := next.Add(1) - 1
				if s >= *from+uint64(*seeds) {
					return
				}
				r := simulate(options{Seed: s})
				if len(r.Problems) > 0 {
					bad.Add(1)
					t.Errorf("seed %d: %s (again: make simulate SIMULATEFLAGS='-seed %d -trace')", s, r.Problems[0], s)
				}
				mu.Lock()
				all.add(r.stats)
				days += r.stats.Simulated.Hours() / 24
				awake += (r.stats.Simulated - r.stats.Skipped).Hours()
				mu.Unlock()
				if done := s - *from + 1; done%progressEvery == 0 {
					t.Logf("%d of %d seeds, %.0f a second", done, *seeds, float64(done)/time.Since(began).Seconds())
				}
			}
		})
	}
	running.Wait()
	t.Logf("%.0f days in %v, of which %.0f hours were not skipped: %+v", days, time.Since(began).Round(time.Second), awake, all)
}

// TestAccount_Cancelled: whichever comes first, a nil of Cancel and a delivery of the message
// exclude each other.
func TestAccount_Cancelled(t *testing.T) {
	problems := func(happen ...func(*account, *record)) []string {
		w := &world{}
		w.clock.w = w
		a, r := &account{w: w}, &record{n: 1, confirmed: true, written: 1}
		for _, f := range happen {
			f(a, r)
		}
		return a.problems
	}
	cancelled := func(a *account, r *record) { a.cancelled(r) }
	delivered := func(a *account, r *record) { a.delivered(&item{of: r}) }
	require.Empty(t, problems(cancelled))
	require.Empty(t, problems(delivered))
	require.Len(t, problems(cancelled, delivered), 1)
	require.Len(t, problems(delivered, cancelled), 1)
}

const (
	mostBad       = 20 // seeds are enough to look at
	progressEvery = 500
)
