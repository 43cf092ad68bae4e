package rabbit

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc: USER_HZ, which Linux fixes at 100 for every program.
const clockTick = time.Second / 100

// process is one line of the system's process table.
type process struct {
	pid, parent int
	usage
}

// processes reads /proc. Processes that end meanwhile are left out.
func processes() ([]process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		p, err := parseStat(string(text))
		if err != nil {
			return nil, fmt.Errorf("rabbit: %s: %w", file, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Further fields behind the name in a line of proc(5), which numbers them from 1; two are before.
const (
	statParent = 1
	statUtime  = 11
	statRSS    = 21
)

// parseStat reads a line of proc(5). CPU time includes that of children that have ended.
func parseStat(text string) (p process, err error) {
	fields := statFields(text)
	if len(fields) <= statRSS {
		return p, fmt.Errorf("only %d fields in %q", len(fields), text)
	}
	number := func(field string) int64 {
		n, e := strconv.ParseInt(field, 10, 64)
		err = cmp.Or(err, e)
		return n
	}
	p.pid, p.parent = int(number(strings.Fields(text)[0])), int(number(fields[statParent]))
	for _, ticks := range fields[statUtime : statUtime+4] { // utime, stime, cutime, cstime
		p.cpu += time.Duration(number(ticks)) * clockTick
	}
	p.rss = number(fields[statRSS]) * int64(os.Getpagesize())
	return p, err
}

// written is how many bytes a process has had written to disk: write_bytes of proc_pid_io(5); 0
// where that is not told.
func written(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	_, after, _ := strings.Cut(string(text), "\nwrite_bytes: ")
	line, _, _ := strings.Cut(after, "\n")
	n, _ := strconv.ParseInt(line, 10, 64)
	return n
}
