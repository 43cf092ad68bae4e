package conformance_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/conformance"
)

// A recorder stands in for *testing.T, and keeps failures.
type recorder struct {
	only map[string]bool // the subtests to run; nil means all

	mu       sync.Mutex
	failures []string
	skipped  string
	passed   string // over
	subtests map[string]*recorder
}

var _ conformance.Tester = (*recorder)(nil)

func (r *recorder) Helper() {}

func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) { r.end(&r.skipped, format, args) }

func (r *recorder) Passf(format string, args ...any) { r.end(&r.passed, format, args) }

func (r *recorder) end(reason *string, format string, args []any) {
	r.mu.Lock()
	*reason = fmt.Sprintf(format, args...)
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

func (r *recorder) Run(name string, f func(conformance.Tester)) {
	if r.only != nil && !r.only[name] {
		return
	}
	sub := &recorder{}
	r.mu.Lock()
	if r.subtests == nil {
		r.subtests = map[string]*recorder{}
	}
	r.subtests[name] = sub
	r.mu.Unlock()
	done := make(chan struct{})
	go func() { // so that Goexit ends the subtest alone
		defer close(done)
		f(sub)
	}()
	<-done
}

func (r *recorder) failed() map[string][]string {
	all := map[string][]string{}
	for name, sub := range r.subtests {
		if len(sub.failures) > 0 {
			all[name] = sub.failures
		}
	}
	return all
}

// TestReceiver_SlowIsNotMissing: as long as messages keep coming nothing is called missing. It was,
// 6,452 messages of 19,663, on a machine with other work.
func TestReceiver_SlowIsNotMissing(t *testing.T) {
	const patience = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		arrivals := map[string]time.Duration{"a": 25 * time.Second, "b": 50 * time.Second, "c": 75 * time.Second}
		require.Empty(t, conformance.Receive(arrivals, []string{"c", "a", "b"}, patience, patience))

		begin := time.Now()
		require.Equal(t, []string{"lost"}, conformance.Receive(arrivals, []string{"c", "lost", "a"}, patience, patience))
		require.Less(t, time.Since(begin), 5*patience, "it ends when nothing comes any more")
	})
}
