package rabbit

import (
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

// parseStat reads a line of proc(5). The name in parentheses may contain anything, parentheses too;
// CPU time includes that of children that have ended.
func parseStat(text string) (process, error) {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return process{}, fmt.Errorf("no process name in %q", text)
	}
	const parent, utime, rss = 1, 11, 21 // proc(5) numbers them from 1, and two are before
	fields := strings.Fields(text[end+1:])
	if len(fields) <= rss {
		return process{}, fmt.Errorf("only %d fields in %q", len(fields), text)
	}
	var p process
	var err error
	if p.pid, err = strconv.Atoi(strings.Fields(text)[0]); err != nil {
		return p, err
	}
	if p.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return p, err
	}
	for _, field := range fields[utime : utime+4] { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return p, err
		}
		p.cpu += time.Duration(ticks) * clockTick
	}
	pages, err := strconv.ParseInt(fields[rss], 10, 64)
	p.rss = pages * int64(os.Getpagesize())
	return p, err
}
