package misrouted

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// Rules compute the remaining delay of a message. They use no clock, so no clock can make a message
// early.
type Rules struct {
	// TTL returns how long messages wait in a queue of ours.
	TTL func(queue string) (time.Duration, bool)

	// Own is asked first: what the backend knows beyond x-death. ok is false if it knows nothing.
	// It may be nil.
	Own func(amqp091.Table) (remaining time.Duration, ok bool)
}

// Remaining returns the part of the delay that a message has not waited for. ok is false if that is
// unknown.
func (r Rules) Remaining(e message.Envelope, headers amqp091.Table) (remaining time.Duration, ok bool) {
	if r.Own != nil {
		if remaining, ok = r.Own(headers); ok {
			return max(0, remaining), true
		}
	}
	if _, ofController := headers[message.Stamp]; ofController {
		return 0, false
	}
	return max(0, e.Delay-r.waited(headers)), true
}

// waited is the sum of the TTLs of the queues in which the message has expired. x-death has one
// entry for each queue.
func (r Rules) waited(headers amqp091.Table) (sum time.Duration) {
	deaths, _ := headers["x-death"].([]any)
	for _, entry := range deaths {
		death, _ := entry.(amqp091.Table)
		queue, _ := death["queue"].(string)
		if reason, _ := death["reason"].(string); reason != "expired" {
			continue
		}
		if ttl, ok := r.TTL(queue); ok {
			sum += ttl
		}
	}
	return sum
}

// WhenDue is the Own of a backend that publishes messages itself when they are due. A message that
// has no x-death, and no stamp of a controller, has waited.
func WhenDue(headers amqp091.Table) (remaining time.Duration, ok bool) {
	_, died := headers["x-death"]
	_, held := headers[message.Stamp]
	return 0, !died && !held
}

// DeliveredByPlugin is the Own of backend plugin. Nothing remains once the plugin has delivered a
// message: it negates x-delay then.
func DeliveredByPlugin(headers amqp091.Table) (remaining time.Duration, ok bool) {
	switch delay := headers["x-delay"].(type) {
	case int64:
		return 0, delay < 0
	case int32:
		return 0, delay < 0
	case int16:
		return 0, delay < 0
	case int8:
		return 0, delay < 0
	}
	return 0, false
}

// TTLs looks up the TTLs of a plan's waiting queues.
func TTLs(p topology.Plan) func(queue string) (time.Duration, bool) {
	ttls := map[string]time.Duration{}
	for _, q := range p.Queues {
		ms, ok := q.Args["x-message-ttl"].(int64)
		if !ok {
			continue
		}
		if q.Args["x-queue-type"] == string(delayer.Quorum) {
			ms-- // see topology.WaitingQueue
		}
		ttls[q.Name] = time.Duration(max(0, ms)) * time.Millisecond
	}
	return func(queue string) (time.Duration, bool) {
		ttl, ok := ttls[queue]
		return ttl, ok
	}
}
