package delivery

import (
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// Rules compute the remaining delay of a message. They use no clock, so no clock can make a message
// early.
type Rules struct {
	// TTL returns how long messages wait in a queue of ours.
	TTL func(queue string) (time.Duration, bool)

	// Own is asked before x-death: what the backend knows beyond it. ok is false if it knows
	// nothing. It may be nil.
	Own func(amqp091.Table) (remaining time.Duration, ok bool)
}

// Remaining returns the part of the delay that a message has not waited for. ok is false if that is
// unknown.
func (r Rules) Remaining(e message.Envelope, headers amqp091.Table) (remaining time.Duration, ok bool) {
	// What backend plugin published and the plugin has delivered, also where another backend has taken
	// over its prefix: the plugin negates x-delay. Ours has 64 bits. Before RabbitMQ 4.0 the plugin's has
	// 32, into which more than 24 days wrap around, and may be positive again.
	switch delay := headers["x-delay"].(type) {
	case int32:
		return 0, true
	case int64:
		if delay < 0 {
			return 0, true
		}
	}
	if r.Own != nil {
		if remaining, ok = r.Own(headers); ok {
			return max(0, remaining), true
		}
	}
	if _, ofController := headers[message.Stamp]; ofController {
		return 0, false
	}
	remaining = e.Delay
	for _, death := range message.Deaths(headers) { // one entry for each queue
		if ttl, ok := r.TTL(death.Queue); ok && death.Reason == "expired" {
			remaining -= ttl
		}
	}
	return max(0, remaining), true
}

// WhenDue is the Own of a backend that publishes messages itself when they are due. A message that
// has no x-death, and no stamp of a controller, has waited.
func WhenDue(headers amqp091.Table) (remaining time.Duration, ok bool) {
	_, died := headers["x-death"]
	_, held := headers[message.Stamp]
	return 0, !died && !held
}

// What follows the prefix in the names of waiting queues.
const (
	NativeWait = ".native.wait."
	LadderWait = ".ladder.wait."
)

// TTLs looks up the TTLs of a plan's waiting queues. Those of the same prefix that another Delayer
// has for other tiers or steps, or had before another backend took the prefix over, are named in the
// same way, with the time in the name. A queue of backend native releases what is due: it has waited
// for all of its delay, as in a queue of the longest TTL.
func TTLs(prefix string, p topology.Plan) func(queue string) (time.Duration, bool) {
	ttls := map[string]time.Duration{}
	for _, q := range p.Queues {
		ms, ok := q.Args["x-message-ttl"].(int64)
		if !ok {
			continue
		}
		if q.Args["x-queue-type"] == string(delayer.Quorum) {
			ms-- // see objects.WaitingQueue
		}
		ttls[q.Name] = time.Duration(max(0, ms)) * time.Millisecond
	}
	return func(queue string) (time.Duration, bool) {
		if ttl, ok := ttls[queue]; ok {
			return ttl, true
		}
		if strings.HasPrefix(queue, prefix+NativeWait) {
			return objects.MaxTTL, true
		}
		if name, is := strings.CutPrefix(queue, prefix+LadderWait); is {
			if ttl, err := time.ParseDuration(name); err == nil && objects.DurationName(ttl) == name {
				return ttl, true
			}
		}
		for known, ttl := range ttls {
			word := "." + objects.DurationName(ttl)
			at := strings.LastIndex(known, word)
			if ttl == 0 || at < 0 {
				continue
			}
			name, ok := strings.CutPrefix(queue, known[:at+1])
			name, ok2 := strings.CutSuffix(name, known[at+len(word):])
			if ttl, err := time.ParseDuration(name); ok && ok2 && err == nil && objects.DurationName(ttl) == name {
				return ttl, true
			}
		}
		return 0, false
	}
}

// delivered reports whether a message has left a queue that it had come to by one of these
// exchanges, which lead to destinations. So it was delivered before: its destination is an exchange
// behind which it has waited again, as in the tiers of docs/choosing.md. To send it there once more
// would send it round for ever.
func delivered(headers amqp091.Table, by ...string) bool {
	return slices.ContainsFunc(message.Deaths(headers), func(d message.Death) bool {
		return d.Exchange != "" && slices.Contains(by, d.Exchange)
	})
}
