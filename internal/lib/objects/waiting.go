package objects

import (
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

// MaxTTL is the longest x-message-ttl that RabbitMQ accepts, ten years of 365 days. It refuses a
// longer one with 406 (measured on 3.10.8, 4.0.5 and 4.3.6, for classic and quorum queues).
const MaxTTL = 10 * 365 * 24 * time.Hour

// NeverFull is an x-max-length that is never reached, for quorum queues that others dead-letter to.
// A quorum queue that becomes full under a policy's max-length tells its publishers, and tells them
// otherwise only while it has some limit (rabbit_fifo, evaluate_limit; seen on RabbitMQ 3.10.8).
// Without a limit of its own, once the policy is gone, queues that dead-letter to it would still
// take it for full, and move 32 messages in three minutes.
const NeverFull = int64(1) << 40

// NeverGivenUp is an x-delivery-limit that is never reached. From RabbitMQ 4.0 on a quorum queue
// drops a message after 20 deliveries by default. To look at a message is a delivery, and so is
// each that a consumer gives back when it stops.
const NeverGivenUp = int64(1) << 30

// WaitingQueue is a queue where messages wait for ttl and are then dead-lettered to exchange. They
// keep their routing keys: a dead-letter routing key would remove CC and BCC.
//
// A quorum queue counts in whole milliseconds. It cuts off the fraction when a message comes and
// when it checks for expiry (rabbit_fifo, system_time), so a message may leave up to one
// millisecond early. So one millisecond is added to its TTL. A classic queue counts in
// microseconds.
func WaitingQueue(name string, kind delayer.QueueType, ttl time.Duration, exchange string) topology.Queue {
	args := amqp091.Table{
		"x-queue-type":           string(kind),
		"x-message-ttl":          ttl.Milliseconds(),
		"x-dead-letter-exchange": exchange,
		// Under a policy with max-length messages are refused and do not leave early. On classic
		// queues the argument wins over a policy.
		"x-overflow": "reject-publish",
	}
	if kind == delayer.Quorum {
		args["x-message-ttl"] = ttl.Milliseconds() + 1
		args["x-max-length"] = NeverFull
		// Otherwise the node that we are connected to leads them all.
		args["x-queue-leader-locator"] = "balanced"
		// It needs reject-publish. Without that the broker silently falls back to at-most-once.
		args["x-dead-letter-strategy"] = "at-least-once"
	}
	return topology.Queue{Name: name, Args: args}
}

// DurationName is a duration as people write it, for names of objects: 1m, 1h30m, 1s500ms. It has
// no dot, which separates words.
func DurationName(d time.Duration) string {
	var b strings.Builder
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / unit.size; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + unit.name)
		}
		d %= unit.size
	}
	return b.String()
}
