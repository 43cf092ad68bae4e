package conformance

import "testing"

// tester is the part of *testing.T that cases use. The suite's own tests put a recorder in its
// place, to see the suite fail where it should.
type tester interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	// Skipf ends the case as one that could not be run.
	Skipf(format string, args ...any)
	Failed() bool
	// Run runs f as a subtest, and returns when it has ended. It may be called by several
	// goroutines at a time.
	Run(name string, f func(tester))
}

// goTest is a tester that is a *testing.T.
type goTest struct {
	*testing.T
	skip func(t *testing.T, reason string)
}

func (g goTest) Skipf(format string, args ...any) {
	g.T.Helper()
	if g.skip != nil {
		g.skip(g.T, sprintf(format, args...))
	}
	g.T.Skipf(format, args...)
}

func (g goTest) Run(name string, f func(tester)) {
	g.T.Run(name, func(t *testing.T) { f(goTest{t, g.skip}) })
}
