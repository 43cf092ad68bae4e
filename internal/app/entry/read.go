package entry

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/xdelay"
)

// Headers by which a publisher says when a message is to arrive, beside the plugin's x-delay, and
// where. Consumers do not see them.
const (
	DelayHeader    = "x-delayer-delay"    // a text: 30m
	DueHeader      = "x-delayer-due"      // a time: an AMQP timestamp, milliseconds since 1970, or RFC 3339
	ExchangeHeader = "x-delayer-exchange" // where an entry lets publishers choose
)

// read returns how long the headers of a message ask it to wait; 0: not at all. What cannot be
// understood is an error: nothing is early in silence.
func read(headers amqp091.Table, now time.Time) (time.Duration, error) {
	_, x := headers[xdelay.Header]
	delay, relative := headers[DelayHeader]
	due, absolute := headers[DueHeader]
	switch {
	case x && relative, x && absolute, relative && absolute:
		return 0, fmt.Errorf("it has two of the headers %s, %s and %s", xdelay.Header, DelayHeader, DueHeader)
	case relative:
		return readDelay(delay)
	case absolute:
		return readDue(due, now)
	}
	return xdelay.Of(headers)
}

func readDelay(value any) (time.Duration, error) {
	var d cli.Delay
	text, is := value.(string)
	if !is {
		return 0, fmt.Errorf("header %s is %s: write a text such as 90s, 30m or 2d", DelayHeader, xdelay.Kind(value))
	}
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("header %s is %.64q: %w", DelayHeader, text, err)
	}
	if d < 0 {
		return 0, fmt.Errorf("header %s is %.64q, which is negative", DelayHeader, text)
	}
	return time.Duration(d), nil
}

var digits = regexp.MustCompile(`^[0-9]+$`)

func readDue(value any, now time.Time) (time.Duration, error) {
	var due time.Time
	switch v := value.(type) {
	case time.Time:
		due = v
	case string:
		if digits.MatchString(v) {
			ms, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("header %s is %.64q: %w", DueHeader, v, strconv.ErrRange)
			}
			return readDue(ms, now)
		}
		var err error
		if due, err = time.Parse(time.RFC3339, v); err != nil {
			return 0, fmt.Errorf("header %s is %.64q: write a time such as 2027-01-31T18:00:00Z", DueHeader, v)
		}
	default:
		ms, is := xdelay.Integer(value)
		if !is {
			return 0, fmt.Errorf("header %s is %s: write a timestamp, milliseconds since 1970, or a time such as 2027-01-31T18:00:00Z",
				DueHeader, xdelay.Kind(value))
		}
		const year1973 = 100_000_000_000 // seconds of the years up to 5138 are less
		if ms < year1973 {
			return 0, fmt.Errorf("header %s is %d: it must be in milliseconds since 1970, and that looks like seconds", DueHeader, ms)
		}
		due = time.UnixMilli(ms)
	}
	left := due.Sub(now)
	if left == math.MaxInt64 { // what Sub returns for more
		return 0, fmt.Errorf("header %s is more than 292 years away", DueHeader)
	}
	return max(0, left), nil
}
