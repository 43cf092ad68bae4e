package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Delay is how long something waits, as people write it: 250ms, 90s, 36h, 2d or 1d12h.
type Delay time.Duration

// UnmarshalText reads days, which [time.ParseDuration] does not know, as 24 hours each.
func (w *Delay) UnmarshalText(text []byte) error {
	days, rest, found := strings.Cut(string(text), "d")
	if !found {
		days, rest = "0", string(text)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil {
		return errNoDelay
	}
	var d time.Duration
	if rest != "" || !found {
		if d, err = time.ParseDuration(rest); err != nil || found && (d < 0 || rest[0] == '+') {
			return errNoDelay
		}
	}
	total := n*float64(24*time.Hour) + float64(d)
	if math.IsNaN(total) || math.Abs(total) >= math.MaxInt64 {
		return errors.New("it is longer than 292 years")
	}
	*w = Delay(time.Duration(n*float64(24*time.Hour)) + d)
	return nil
}

var errNoDelay = errors.New("it must be a time with its unit, such as 250ms, 90s, 36h, 2d or 1d12h")
