package bench

import (
	"runtime"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

// machine is where the benchmark runs. What the system does not tell is left out.
func machine() report.Machine {
	m := report.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if processors, err := cpu.Info(); err == nil && len(processors) > 0 {
		m.Model = processors[0].ModelName
	}
	m.Kernel, _ = host.KernelVersion()
	return m
}
