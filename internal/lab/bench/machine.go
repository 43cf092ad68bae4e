package bench

import (
	"os"
	"runtime"
	"strings"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

// machine is where the benchmark runs. What a system does not tell is left out: only Linux tells
// the model of its processors and its version here.
func machine() report.Machine {
	m := report.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
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
