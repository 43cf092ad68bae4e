package plugin

import (
	"context"
	"math"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
)

// header is how the plugin is told for how many milliseconds to keep a message.
const header = "x-delay"

// longest is the longest delay of the plugin. It delivers a longer one at once.
const longest = math.MaxUint32 * time.Millisecond

// await returns the header for a delay between 0 and longest: in milliseconds, rounded up, and one
// more. The plugin cuts the time of day off to milliseconds before it adds the delay, so that a
// message may be due up to one millisecond early.
//
// The longest delay has no room for that millisecond: such a message is published a millisecond
// later instead.
func await(ctx context.Context, delay time.Duration) (amqp091.Table, error) {
	ms := milliseconds(delay) + 1
	if ms > math.MaxUint32 {
		ms = math.MaxUint32
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, broker.Explain("publish", Name, "", context.Cause(ctx))
		}
	}
	return amqp091.Table{header: ms}, nil
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
