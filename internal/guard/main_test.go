package guard

import (
	"os"
	"runtime"
	"testing"
)

// TestMain runs the tests on one processor. They let days pass in bubbles of synctest, and the race
// detector of Go 1.26.8 crashes when the timers of a bubble fire on several ("CHECK failed:
// tsan_rtl.cpp:346", or SIGSEGV in goroutine 0). It finds races by the order of events, on one
// processor as well.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
