package controller

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// death tells whether a message has left its queue because its TTL had passed, and when, by the broker's clock in
// whole seconds. Earlier deaths were stripped, so there is one.
func death(headers amqp091.Table) (expired bool, at time.Time) {
	list, _ := headers["x-death"].([]any)
	if len(list) != 1 {
		return false, time.Time{}
	}
	t, _ := list[0].(amqp091.Table)
	at, _ = t["time"].(time.Time)
	return t["reason"] == "expired", at
}

// uncertainty is subtracted from the time between two events that the broker's clock has dated: the fraction of a
// second that is cut off the first, and a second by which the clocks of a cluster's nodes may differ.
const uncertainty = 2 * time.Second

// lain is how long a message has certainly lain in the intake that died at a time by the broker's clock. It is 0 where
// the broker cannot be asked: then the message is later than it need be.
func (r *runner) lain(ctx context.Context, died time.Time) time.Duration {
	if died.IsZero() {
		return 0
	}
	now, err := r.clock.Now(ctx)
	if err != nil {
		r.log.Debug("the controller does not know how long a message has waited for it", "error", err)
		return 0
	}
	return max(0, now.Sub(died)-uncertainty)
}
