package delayer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// PublishAt publishes msg through d to arrive at a time instead of after a delay: it calls Publish
// with the delay that is left until then, which the resolution rounds up. A time that has passed is
// a delay of 0.
//
// The clock is this process's, as with [time.Until]: its monotonic one if at has such a reading, as
// time.Now().Add has, else its wall clock. A broker whose clock differs changes nothing, since it
// only measures the delay.
//
// The zero time, and one that is further away than Limits().Max, are refused with [ErrOutOfRange].
// All else is as with [Delayer].Publish.
func PublishAt(ctx context.Context, d Delayer, exchange, key string, at time.Time, msg amqp091.Publishing) error {
	delay, err := until(at)
	if err != nil {
		return &Error{Op: "publish", Object: destination(exchange, key), Kind: ErrOutOfRange, Cause: err}
	}
	return d.Publish(ctx, exchange, key, delay, msg)
}

func until(at time.Time) (time.Duration, error) {
	if at.IsZero() {
		return 0, errors.New("the zero time: set it, or use time.Now() to publish at once")
	}
	delay := time.Until(at)
	if delay == math.MaxInt64 { // time.Until cuts off what is longer
		return 0, fmt.Errorf("%s is more than 292 years away", at.Format(time.DateOnly))
	}
	return max(delay, 0), nil
}

func destination(exchange, key string) string {
	if exchange == "" {
		return fmt.Sprintf("to queue %.300q", key)
	}
	return fmt.Sprintf("to exchange %.300q with key %.300q", exchange, key)
}
