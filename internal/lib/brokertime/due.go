package brokertime

import "time"

// A Due is a due time by the broker's clock, in ms since 1970. The zero value is none.
type Due int64

const latestDue = 16_725_225_600_000 // in the year 2500

// Valid reports whether a Due may have been written by a Delayer.
func (d Due) Valid() bool { return d > 0 && d <= latestDue }

// Time is what the broker's clock shows then.
func (d Due) Time() time.Time { return time.UnixMilli(int64(d)) }
