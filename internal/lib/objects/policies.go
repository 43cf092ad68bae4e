package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// A PolicyAPI asks the management API of a broker for policies. One goroutine uses it.
type PolicyAPI struct {
	client *management.Client
	vhost  string
	sound  map[string]time.Time // when exchanges of the plugin were last found without harm

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
	return &PolicyAPI{client: client, vhost: vhost, sound: map[string]time.Time{}}, nil
}

// Check returns ErrConflict if policies make messages of a plan early, lose or misroute them, and
// ErrUnavailable or ErrAccess if the API does not answer.
func (m *PolicyAPI) Check(ctx context.Context, prefix string, p topology.Plan) error {
	found, err := m.Problems(ctx, prefix, p)
	if err != nil || len(found) == 0 {
		return err
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
		if err := pace.Sleep(ctx, pause); err != nil {
			return nil, err
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
	beginnings := []string{prefix} // of all names in the plan; fixedtiers has another
	for _, q := range p.Queues {
		if first, _, _ := strings.Cut(q.Name, "."); !strings.HasPrefix(q.Name, prefix) && !slices.Contains(beginnings, first) {
			beginnings = append(beginnings, first)
		}
	}
	for _, begin := range beginnings {
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
		if x.Alternate != "" || time.Since(m.sound[x.Name]) < rarely {
			continue
		}
		d, err := m.exchange(ctx, x.Name, policies)
		if err != nil {
			return nil, err
		}
		found[x.Name] = d
		if x.DelayedKind != "" && d["alternate-exchange"] == nil {
			m.sound[x.Name] = time.Now()
		}
	}
	return found, nil
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
	if less(d, q, "delivery-limit") && q.Args["x-delivery-limit"] != nil { // we consume it
		bad("delivery-limit", "lose messages that are looked at often")
	}
	return found
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

// PolicyRemedy says what to do about a policy that applies to objects of a prefix.
func PolicyRemedy(prefix string) string {
	return "see rabbitmqctl list_policies and list_operator_policies, and keep them from names that begin with " + prefix +
		".: rabbitmqctl set_policy (or set_operator_policy) NAME '^(?!" + strings.ReplaceAll(prefix, ".", `\.`) +
		`\.)' DEFINITION, with their --priority and --apply-to`
}
