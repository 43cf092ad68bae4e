package bench

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/bench/report"
)

// machine is where the benchmark runs. What a system does not tell is left out: only Linux tells
// the model of its processors and its version here.
func machine() report.Machine {
	m := report.Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(),
		SyncMS: milliseconds(syncTime()),
	}
	processors, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(processors)) {
		if name, value, _ := strings.Cut(line, ":"); m.Model == "" && strings.TrimSpace(name) == "model name" {
			m.Model = strings.TrimSpace(value)
		}
	}
	if kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease"); len(kernel) > 0 {
		m.Kernel = "Linux " + strings.TrimSpace(string(kernel))
	}
	return m
}

// syncTime is how long it takes to write 4 KiB to a temporary file and sync it: the median; 0 if
// that fails. A broker's quorum queues do so all the time, perhaps on another disk.
func syncTime() time.Duration {
	const times, size = 25, 4 << 10
	f, err := os.CreateTemp("", "delayer-bench-")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
	var took []time.Duration
	for range times {
		began := time.Now()
		if _, err := f.Write(make([]byte, size)); err != nil {
			return 0
		}
		if err := f.Sync(); err != nil {
			return 0
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[times/2]
}
