//go:build unix && !linux

package rabbit

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// process is one line of the system's process table.
type process struct {
	pid, parent int
	usage
}

// processes asks ps, the one interface to the process table that macOS and the BSDs share.
func processes() ([]process, error) {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=,rss=,time=").Output()
	if err != nil {
		return nil, fmt.Errorf("rabbit: ps: %w", err)
	}
	var all []process
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		pid, err1 := strconv.Atoi(fields[0])
		parent, err2 := strconv.Atoi(fields[1])
		kilobytes, err3 := strconv.ParseInt(fields[2], 10, 64)
		cpu, err4 := parseTime(fields[3])
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
			return nil, fmt.Errorf("rabbit: ps printed %q", line)
		}
		all = append(all, process{pid: pid, parent: parent, usage: usage{cpu: cpu, rss: kilobytes << 10}})
	}
	return all, nil
}

// parseTime reads [[days-]hours:]minutes:seconds[.hundredths].
func parseTime(text string) (time.Duration, error) {
	var days int
	if before, after, ok := strings.Cut(text, "-"); ok {
		var err error
		if days, err = strconv.Atoi(before); err != nil {
			return 0, err
		}
		text = after
	}
	var seconds float64
	for _, part := range strings.Split(text, ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, err
		}
		seconds = seconds*60 + n
	}
	return time.Duration(days)*24*time.Hour + time.Duration(seconds*float64(time.Second)), nil
}

// written is not known: ps does not tell.
func written(int) int64 { return 0 }
