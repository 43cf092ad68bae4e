package brokertime

import (
	"syscall"
	"time"
	"unsafe"
)

// sinceBoot is how long ago the machine was booted, also while it was suspended: CLOCK_BOOTTIME,
// which nobody can set.
func sinceBoot() (time.Duration, bool) {
	const bootTime = 7 // CLOCK_BOOTTIME of clock_gettime(2)
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, bootTime, uintptr(unsafe.Pointer(&t)), 0) //nolint:gosec // package syscall has no function for it
	return time.Duration(t.Nano()), errno == 0
}
