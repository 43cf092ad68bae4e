package misrouted

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// Rules say what remains of a message's delay. They look at no clock, so no clock can make a message early.
type Rules struct {
	// TTL is how long messages wait in a queue of ours.
	TTL func(queue string) (time.Duration, bool)

	// Own is what the backend knows beyond x-death; ok is false where it knows nothing. It may be nil.
	Own func(amqp091.Table) (remaining time.Duration, ok bool)
}

// Remaining is the part of the delay that a message has not waited for yet. ok is false where that is not known.
func (r Rules) Remaining(e message.Envelope, headers amqp091.Table) (remaining time.Duration, ok bool) {
	if r.Own != nil {
		if remaining, ok = r.Own(headers); ok {
			return max(0, remaining), true
		}
	}
	if _, ofController := headers[message.Journey]; ofController {
		return 0, false
	}
	return max(0, e.Delay-r.waited(headers)), true
}

// waited is the sum of the TTLs of the queues that the message has expired in. The broker writes one entry a queue.
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

// WhenDue is the Own of a backend that publishes a message itself when it is due: what no queue of ours has let go of,
// and no controller has in hand, has waited.
func WhenDue(headers amqp091.Table) (remaining time.Duration, ok bool) {
	_, died := headers["x-death"]
	_, held := headers[message.Journey]
	return 0, !died && !held
}

// DeliveredByPlugin is the Own of backend plugin: nothing remains once the plugin has delivered a message and turned the
// sign of its x-delay.
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

// TTLs are those of a plan's waiting queues.
func TTLs(p topology.Plan) func(queue string) (time.Duration, bool) {
	ttls := map[string]time.Duration{}
	for _, q := range p.Queues {
		ms, ok := q.Args["x-message-ttl"].(int64)
		if !ok {
			continue
		}
		if q.Args["x-queue-type"] == string(topology.Quorum) {
			ms-- // see topology.WaitingQueue
		}
		ttls[q.Name] = time.Duration(max(0, ms)) * time.Millisecond
	}
	return func(queue string) (time.Duration, bool) {
		ttl, ok := ttls[queue]
		return ttl, ok
	}
}
