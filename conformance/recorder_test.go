package conformance_test

import (
	"fmt"
	"runtime"
	"sync"

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
