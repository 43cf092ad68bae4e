package objects

import (
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

// A Policy holds the keys that apply to one queue or exchange, whichever policies they are from.
type Policy map[string]any

// Policies are those of all existing queues and exchanges, by name.
type Policies struct {
	Queues, Exchanges map[string]Policy
}

// Harm returns the harm that policies do to a plan, one difference for each object and key.
func Harm(p topology.Plan, a Policies) []Difference {
	var found []Difference
	for _, x := range p.Exchanges {
		if d := a.Exchanges[x.Name]; d["alternate-exchange"] != nil && x.Alternate == "" {
			effect := "take messages that must be returned"
			if x.DelayedKind != "" {
				effect = "get a copy of every delayed message at once"
			}
			found = append(found, Difference{
				Kind: IsHarmed, Object: describe("exchange", x.Name), Detail: "a policy sets alternate-exchange, which would " + effect,
			})
		}
	}
	for _, q := range p.Queues {
		found = append(found, queueHarm(q, a.Queues[q.Name])...)
	}
	return slices.Compact(found)
}

// queueHarm checks the policy keys that win over the arguments of a queue, or are combined with
// them.
func queueHarm(q topology.Queue, d Policy) []Difference {
	var found []Difference
	bad := func(key, effect string) {
		found = append(found, Difference{
			Kind: IsHarmed, Object: describe("queue", q.Name),
			Detail: fmt.Sprintf("a policy sets %s to %v, which would %s", key, d[key], effect),
		})
	}
	if q.Args["x-queue-type"] == topology.Stream { // to which no other keys apply
		if less(d, q, "max-length-bytes") {
			bad("max-length-bytes", "make it forget what is above it")
		}
		return found
	}
	waits := q.Args["x-dead-letter-exchange"] != nil
	if less(d, q, "message-ttl") {
		if waits {
			bad("message-ttl", "make messages early")
		} else {
			bad("message-ttl", "lose messages")
		}
	}
	if d["expires"] != nil {
		bad("expires", "delete the queue with what waits there")
	}
	for _, key := range []string{"max-length", "max-length-bytes"} {
		if less(d, q, key) {
			bad(key, "refuse, lose or deliver early what is above it")
		}
	}
	if o := d["overflow"]; o != nil && q.Args["x-queue-type"] == string(delayer.Quorum) && waits && o != "reject-publish" {
		bad("overflow", "lose messages in a crash, or make them early")
	}
	if d["dead-letter-routing-key"] != nil && waits {
		bad("dead-letter-routing-key", "misroute messages")
	}
	if d["dead-letter-exchange"] != nil && !waits {
		bad("dead-letter-exchange", "send copies to that exchange")
	}
	consumed := q.Args["x-delivery-limit"] != nil // by us; who waits for a TTL is not
	if less(d, q, "delivery-limit") && consumed {
		bad("delivery-limit", "lose messages that are looked at often")
	}
	if wait := delayedRetry(d); wait > 0 && consumed {
		found = append(found, Difference{Kind: IsHarmed, Late: true, Object: describe("queue", q.Name), Detail: fmt.Sprintf(
			"a policy sets delayed-retry-type to %v and delayed-retry-min to %v, which would make messages late: what a consumer gives back waits for %v or longer",
			d["delayed-retry-type"], d["delayed-retry-min"], wait)})
	}
	return found
}

// delayedRetry is how long a message at least waits that a consumer gives back, on RabbitMQ 4.3. A
// controller that closes gives back what it holds, and so does whoever looks at a queue.
func delayedRetry(d Policy) time.Duration {
	least, _ := d["delayed-retry-min"].(float64)
	if kind := d["delayed-retry-type"]; kind == nil || kind == "disabled" {
		return 0
	}
	return time.Duration(least) * time.Millisecond
}

// less reports whether a policy's value is smaller than the queue's argument, or the queue has
// none.
func less(d Policy, q topology.Queue, key string) bool {
	value, ok := d[key].(float64) // as JSON has it
	if !ok {
		return d[key] != nil
	}
	own, ok := q.Args["x-"+key].(int64)
	return !ok || value < float64(own)
}
