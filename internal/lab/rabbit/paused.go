//go:build unix

package rabbit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// isPaused reports whether every thread of a process has stopped, or has ended. SIGSTOP is sent to
// the process: where the processors are busy its threads go on for some milliseconds, until one of
// them takes the signal. Only Linux can tell. Elsewhere there is no /proc, and the answer is yes.
func isPaused(pid int) bool {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil {
		return false
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		const paused = "TtZX" // stopped, by a signal or a tracer; ended
		if fields := statFields(string(text)); len(fields) == 0 || !strings.Contains(paused, fields[statState]) {
			return false
		}
	}
	return true
}

// The state is the first of the fields behind the name in a line of proc(5).
const statState = 0

// statFields are the fields behind the name in a line of proc(5). The name in parentheses may
// contain anything, parentheses too.
func statFields(text string) []string {
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}
