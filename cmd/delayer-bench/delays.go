package main

import (
	"fmt"
	"strings"
	"time"
)

// delays are a range in whole milliseconds, written "1s-15s", one delay, "5s", or a list,
// "1s,5s,1m".
type delays struct {
	from, to time.Duration
	list     []time.Duration // instead of the range
}

// UnmarshalText reads the flag.
func (d *delays) UnmarshalText(text []byte) error {
	from, to, isRange := strings.Cut(string(text), "-")
	parts := []string{from, to}
	if !isRange {
		parts = strings.Split(from, ",")
	}
	var values []time.Duration
	for _, part := range parts {
		value, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is no range of delays such as 1s-15s, and no list such as 1s,5s,1m", text)
		}
		if value < time.Millisecond || value%time.Millisecond != 0 {
			return fmt.Errorf("%q: delays are whole milliseconds, at least 1ms", text)
		}
		values = append(values, value)
	}
	switch {
	case isRange && values[0] > values[1]:
		return fmt.Errorf("%q: a range begins with the shorter delay", text)
	case isRange || len(values) == 1:
		*d = delays{from: values[0], to: values[len(values)-1]}
	default:
		*d = delays{list: values}
	}
	return nil
}
