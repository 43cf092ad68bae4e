package sendcmd

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A moment is a time on the command line.
type moment struct{ time.Time }

// UnmarshalText reads a time with its zone, or one of this machine's zone.
func (m *moment) UnmarshalText(text []byte) (err error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04"} {
		if m.Time, err = time.ParseInLocation(layout, string(text), time.Local); err == nil {
			return nil
		}
	}
	return errors.New("it must be a time such as 2027-01-31T18:00:00Z, or 2027-01-31T18:00 in this machine's zone")
}

// until returns how long a message waits: until at, or delay.
func until(delay *cli.Delay, at *moment, now time.Time) (time.Duration, error) {
	switch {
	case (delay == nil) == (at == nil):
		return 0, errors.New("give a delay, or --at with a time")
	case delay != nil && *delay < 0:
		return 0, fmt.Errorf("the delay %v is negative", time.Duration(*delay))
	case delay != nil:
		return time.Duration(*delay), nil
	case !at.After(now):
		return 0, fmt.Errorf("--at: %s has passed", at.Format(time.RFC3339))
	}
	left := at.Sub(now)
	if left == math.MaxInt64 { // what Sub returns for more
		return 0, fmt.Errorf("--at: %s is more than 292 years away", at.Format(time.DateOnly))
	}
	return left, nil
}

// kept is how long the backend makes a message wait, and why that is longer than asked for.
func kept(l delayer.Limits, delay time.Duration) (longer time.Duration, why string) {
	longer, err := message.RoundUp(delay, l)
	switch later := (longer - delay).Round(time.Millisecond); { // as exactly as the due time is printed
	case err != nil: // Publish says what is wrong
		return delay, ""
	case later == 0:
		return longer, ""
	case len(l.Tiers) > 0:
		return longer, fmt.Sprintf(" (%v later than asked for: the next tier is %v)", later, cli.Short(longer))
	default:
		return longer, fmt.Sprintf(" (%v later than asked for: delays are multiples of %v)", later, cli.Short(l.Resolution))
	}
}
