package rabbit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// isPaused reports whether every thread of a process has stopped, or has ended. SIGSTOP is sent to
// the process: where the processors are busy its threads go on for some milliseconds, until one of
// them takes the signal.
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
		if !strings.ContainsAny(threadState(string(text)), "TtZX") {
			return false
		}
	}
	return true
}

// threadState is the field behind the name in a line of proc(5), "R" of a thread that runs.
func threadState(text string) string {
	state, _, _ := strings.Cut(strings.TrimSpace(text[strings.LastIndexByte(text, ')')+1:]), " ")
	return state
}
