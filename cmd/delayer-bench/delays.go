package main

import (
	"fmt"
	"strings"
	"time"
)

// delayRange is a range of delays in whole milliseconds, written "1s-15s", or one delay, "5s".
type delayRange struct{ from, to time.Duration }

// UnmarshalText reads the flag.
func (d *delayRange) UnmarshalText(text []byte) error {
	from, to, isRange := strings.Cut(string(text), "-")
	if !isRange {
		to = from
	}
	for _, end := range []struct {
		text string
		to   *time.Duration
	}{{from, &d.from}, {to, &d.to}} {
		value, err := time.ParseDuration(strings.TrimSpace(end.text))
		if err != nil {
			return fmt.Errorf("%q is not a range of delays such as 1s-15s", text)
		}
		*end.to = value
	}
	const unit = time.Millisecond
	if d.from < unit || d.to < d.from || d.from%unit != 0 || d.to%unit != 0 {
		return fmt.Errorf("%q: delays are whole milliseconds, at least 1ms, the shorter first", text)
	}
	return nil
}

// step is the default step between two delays: a second, or a millisecond if the ends are not whole
// seconds.
func (d delayRange) step() time.Duration {
	if d.from%time.Second == 0 && d.to%time.Second == 0 {
		return time.Second
	}
	return time.Millisecond
}
