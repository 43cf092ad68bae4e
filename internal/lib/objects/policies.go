package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/topology"
)

// A PolicyAPI asks the management API of a broker for policies. One goroutine uses it.
type PolicyAPI struct {
	client *management.Client
	vhost  string
	costly map[string]answer // of exchanges of the plugin, by name

	impatient bool // the last wait for the policies of all queues failed
}

// NewPolicyAPI parses the API's address, such as http://monitor:password@host:15672. It asks
// nothing yet. The error is ErrConfig and never contains the address.
func NewPolicyAPI(address, vhost string, transport http.RoundTripper) (*PolicyAPI, error) {
	const timeout = 30 * time.Second // it took more than 10 beside four busy loops on two cores
	client, err := management.New(address, timeout, transport)
	if err != nil {
		return nil, err
	}
	return &PolicyAPI{client: client, vhost: vhost, costly: map[string]answer{}}, nil
}

// Check returns ErrConflict if policies make messages of a plan early, lose or misroute them, and
// ErrUnavailable or ErrAccess if the API does not answer. It logs policies that make them late.
func (m *PolicyAPI) Check(ctx context.Context, prefix string, p topology.Plan, log *slog.Logger) error {
	all, err := m.Problems(ctx, prefix, p)
	if err != nil {
		return err
	}
	var late, found []Difference
	for _, d := range all {
		if d.Late {
			late = append(late, d)
		} else {
			found = append(found, d)
		}
	}
	if len(late) > 0 {
		log.Warn("delayed messages may be late", "policies", Summary(late), "hint", PolicyRemedy(prefix))
	}
	if len(found) == 0 {
		return nil
	}
	return &delayer.Error{
		Op: "open", Object: "policies", Kind: delayer.ErrConflict,
		Cause: errors.New(Summary(found)), Hint: PolicyRemedy(prefix) + "; delayer topology verify lists all",
	}
}

// Problems returns what policies harm of a plan. Before RabbitMQ 4 the API knows
// the policy of a queue only a few seconds after it was declared. Problems waits for that, but only
// once at a broker that never knows it.
func (m *PolicyAPI) Problems(ctx context.Context, prefix string, p topology.Plan) ([]Difference, error) {
	const patience, pause = 15 * time.Second, 500 * time.Millisecond
	for began := time.Now(); ; {
		a, known, err := m.applied(ctx, prefix, p)
		if err != nil {
			return nil, err
		}
		m.impatient = !known && (m.impatient || time.Since(began) > patience)
		if known || m.impatient {
			return Harm(p, a), nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// item is a queue or an exchange as the API shows it.
type item struct {
	Name      string          `json:"name"`
	Policy    string          `json:"policy"`
	Effective json.RawMessage `json:"effective_policy_definition"`
}

// applied asks for the objects of a plan. known reports whether the policies of all its existing
// queues are known.
func (m *PolicyAPI) applied(ctx context.Context, prefix string, p topology.Plan) (a Policies, known bool, err error) {
	known = true
	ours := map[string]bool{}
	for _, q := range p.Queues {
		ours[q.Name] = true
	}
	a.Queues = map[string]Policy{}
	for _, begin := range beginnings(prefix, p) {
		r := management.Request{
			Op: lookAtPolicies, Path: management.Path("queues", m.vhost), Query: url.Values{"columns": {"name,policy,effective_policy_definition"}},
		}
		items, err := management.List[item](ctx, m.client, r, begin)
		if err != nil {
			return a, false, err
		}
		for _, it := range items {
			var d Policy
			_ = json.Unmarshal(it.Effective, &d) // [] if there is none
			a.Queues[it.Name] = d
			known = known && (it.Effective != nil || !ours[it.Name])
		}
	}
	a.Exchanges, err = m.exchanges(ctx, p)
	return a, known, err
}

// exchanges asks for the exchanges that a policy could harm, those without an alternate exchange,
// one by one. A list of exchanges would count what waits in those of the plugin, message by
// message: that takes seconds, and gigabytes (plugin issue 228). A sound one of ours is asked for
// once in ten minutes.
func (m *PolicyAPI) exchanges(ctx context.Context, p topology.Plan) (map[string]Policy, error) {
	const rarely = 10 * time.Minute
	found, policies := map[string]Policy{}, map[string]Policy{}
	for _, x := range p.Exchanges {
		last, costly := m.costly[x.Name], x.DelayedKind != ""
		switch {
		case x.Alternate != "":
			continue
		case costly && !last.asked.IsZero() && time.Since(last.asked) < rarely:
			found[x.Name] = last.definition
			continue
		}
		d, err := m.exchange(ctx, x.Name, policies)
		if err != nil {
			return nil, err
		}
		found[x.Name] = d
		if costly && d["alternate-exchange"] == nil { // harm is asked for again, until it is gone
			m.costly[x.Name] = answer{time.Now(), d}
		}
	}
	return found, nil
}

// An answer is what the API said of an exchange.
type answer struct {
	asked      time.Time
	definition Policy
}

// exchange returns the definition of the policy of an exchange, nil if it has none or does not
// exist. Operator policies do not apply to exchanges.
func (m *PolicyAPI) exchange(ctx context.Context, name string, policies map[string]Policy) (Policy, error) {
	var it item
	request := management.Request{Op: lookAtPolicies, Path: management.Path("exchanges", m.vhost, name), Query: url.Values{"columns": {"name,policy"}}}
	switch err := m.client.Get(ctx, request, &it); {
	case errors.Is(err, delayer.ErrNotFound), err == nil && it.Policy == "":
		return nil, nil
	case err != nil:
		return nil, err
	}
	if d, ok := policies[it.Policy]; ok {
		return d, nil
	}
	var one struct {
		Definition Policy `json:"definition"`
	}
	err := m.client.Get(ctx, management.Request{Op: lookAtPolicies, Path: management.Path("policies", m.vhost, it.Policy)}, &one)
	policies[it.Policy] = one.Definition
	return one.Definition, err
}

// beginnings returns the prefixes of all names in a plan: one, or two for fixedtiers.
func beginnings(prefix string, p topology.Plan) []string {
	out := []string{prefix}
	for _, q := range p.Queues {
		if first, _, _ := strings.Cut(q.Name, "."); !strings.HasPrefix(q.Name, prefix) && out[len(out)-1] != first {
			out = append(out, first)
		}
	}
	return out
}

// lookAtPolicies is the operation that an error names.
const lookAtPolicies = "look at policies"

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
