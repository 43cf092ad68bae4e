package main

import (
	"fmt"
	"strings"
	"time"
)

// delayRange is a range of delays in whole seconds, written "1s-15s", or one delay, "5s".
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
	if d.from < time.Second || d.to < d.from || d.from%time.Second != 0 || d.to%time.Second != 0 {
		return fmt.Errorf("%q: delays are whole seconds, from 1s on, the shorter first", text)
	}
	return nil
}
