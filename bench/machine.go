package bench

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/bench/report"
)

// machine is where the benchmark runs. What a system does not tell is left out.
func machine() report.Machine {
	return report.Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(),
		Model: model(), Kernel: kernel(), SyncMS: milliseconds(syncTime()),
	}
}

// model is the first processor's, on Linux.
func model() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(text) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// kernel is the version of Linux.
func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	if len(text) == 0 {
		return ""
	}
	return "Linux " + strings.TrimSpace(string(text))
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

// ticks are the processors' time since the machine started, all of it and what other machines on
// the same host have taken of it: the columns of /proc/stat. Both are 0 where that is not known.
func ticks() (all, stolen float64) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	const steal, columns = 8, 9 // the name first; guest time, behind these, is counted as user time too
	if len(fields) < columns {
		return 0, 0
	}
	for i, field := range fields[1:columns] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0
		}
		all += n
		if i+1 == steal {
			stolen = n
		}
	}
	return all, stolen
}

// loopbackBytes is how many bytes have gone over the loopback interface since the machine started;
// 0 where that is not known.
func loopbackBytes() int64 {
	text, _ := os.ReadFile("/sys/class/net/lo/statistics/tx_bytes")
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}
