package rabbit

import (
	"errors"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/process"
)

// treeUsage adds up what a process and all below it have used.
func treeUsage(root int) (total usage, err error) {
	p, err := process.NewProcess(int32(root))
	if err != nil {
		return usage{}, fmt.Errorf("rabbit: the broker's process %d: %w", root, err)
	}
	all := []*process.Process{p}
	for i := 0; i < len(all); i++ { // what ends meanwhile is left out
		children, _ := all[i].Children()
		all = append(all, children...)
		if t, err := all[i].Times(); err == nil {
			total.cpu += time.Duration((t.User + t.System) * float64(time.Second))
		}
		if m, err := all[i].MemoryInfo(); err == nil {
			total.rss += int64(m.RSS)
		}
		if io, err := all[i].IOCounters(); err == nil {
			total.written += int64(io.DiskWriteBytes)
		}
	}
	if total.rss == 0 {
		return total, fmt.Errorf("rabbit: the broker's process %d is not running", root)
	}
	return total, nil
}

// nodeRoot is where the folder of a node is made: "" is the system's folder for temporary files.
func nodeRoot(inMemory bool) string {
	const sharedMemory = "/dev/shm" // Linux has a file system in memory here; in a container it is often small
	if !inMemory {
		return ""
	}
	if u, err := disk.Usage(sharedMemory); err != nil || u.Free < roomInMemory {
		return ""
	}
	return sharedMemory
}

// roomInMemory is how many bytes the file system must have that keeps a broker's data in memory.
const roomInMemory = 4 << 30

// diskUsed reads what du said. Files that go while du looks make it fail, and do not matter.
func diskUsed(said string, err error) (int64, error) {
	var kilobytes int64
	if n, _ := fmt.Sscan(said, &kilobytes); n == 0 {
		return 0, errors.Join(fmt.Errorf("rabbit: du said %q", said), err)
	}
	return kilobytes << 10, nil
}
