package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
// ErrUnavailable or ErrAccess if the API does not answer. It logs what the API does not tell.
func (m *PolicyAPI) Check(ctx context.Context, prefix string, p topology.Plan, log *slog.Logger) error {
	all, err := m.Problems(ctx, prefix, p)
	if err != nil {
		return err
	}
	found, unknown := Unknown(all)
	if len(unknown) > 0 {
		log.Warn("it is not known whether policies make messages early, or lose them", "why", Summary(unknown))
	}
	if len(found) == 0 {
		return nil
	}
	return &delayer.Error{
		Op: "open", Object: "policies", Kind: delayer.ErrConflict,
		Cause: errors.New(Summary(found)), Hint: PolicyRemedy(prefix) + "; delayer topology verify lists all",
	}
}

// Unknown separates differences from what could not be looked at.
func Unknown(all []Difference) (found, unknown []Difference) {
	for _, d := range all {
		if d.Kind == IsUnknown {
			unknown = append(unknown, d)
		} else {
			found = append(found, d)
		}
	}
	return found, unknown
}

// Problems returns what policies harm of a plan, and what the API does not tell. Before RabbitMQ 4
// it knows the policy of a queue only a few seconds after that was declared. Problems waits for
// that, but not at a broker that never tells it.
func (m *PolicyAPI) Problems(ctx context.Context, prefix string, p topology.Plan) ([]Difference, error) {
	const patience, pause = 15 * time.Second, 500 * time.Millisecond
	for began := time.Now(); ; {
		a, err := m.applied(ctx, prefix, p)
		if errors.Is(err, management.ErrFailed) {
			return []Difference{{IsUnknown, "policies", strings.TrimPrefix(err.Error(), "delayer: ")}}, nil
		}
		if err != nil {
			return nil, err
		}
		if len(a.Untold) == 0 || time.Since(began) > patience || m.withoutStatistics(ctx) {
			return Harm(p, a), nil
		}
		if err := pace.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// withoutStatistics reports whether the API never tells what policies set for queues.
func (m *PolicyAPI) withoutStatistics(ctx context.Context) bool {
	var overview struct {
		Off bool `json:"disable_stats"`
	}
	err := m.client.Get(ctx, management.Request{Op: lookAtPolicies, Path: "overview", Query: url.Values{"columns": {"disable_stats"}}}, &overview)
	return err == nil && overview.Off
}

type item struct {
	Name      string          `json:"name"`
	Policy    string          `json:"policy"`
	Effective json.RawMessage `json:"effective_policy_definition"`
}

func (m *PolicyAPI) applied(ctx context.Context, prefix string, p topology.Plan) (a Policies, err error) {
	byName := map[string]Policy{} // what queues have of it
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
			return a, err
		}
		for _, it := range items {
			var d Policy
			_ = json.Unmarshal(it.Effective, &d) // [] if there is none
			a.Queues[it.Name] = d
			if it.Effective != nil && it.Policy != "" {
				byName[it.Policy] = d
			}
			if it.Effective == nil && ours[it.Name] {
				a.Untold = append(a.Untold, it.Name)
			}
		}
	}
	return a, m.exchanges(ctx, p, &a, byName)
}

// exchanges asks for the exchanges one by one. A list of them would count what waits in those of
// the plugin, message by message: that takes seconds, and gigabytes (plugin issue 228). One that is
// the plugin's, or has an alternate exchange, is asked for once in ten minutes while it is sound.
//
// The API tells a user with the tag monitoring the name of an exchange's policy, and a policymaker
// what that sets. A queue tells everybody what its policy sets. Operator policies do not apply to
// exchanges.
func (m *PolicyAPI) exchanges(ctx context.Context, p topology.Plan, a *Policies, policies map[string]Policy) error {
	const rarely = 10 * time.Minute
	a.Exchanges, a.Hidden = map[string]Policy{}, map[string]string{}
	for _, x := range p.Exchanges {
		if time.Since(m.sound[x.Name]) < rarely {
			continue
		}
		var it item
		request := management.Request{Op: lookAtPolicies, Path: management.Path("exchanges", m.vhost, x.Name), Query: url.Values{"columns": {"name,policy"}}}
		if err := m.client.Get(ctx, request, &it); err != nil && !errors.Is(err, delayer.ErrNotFound) {
			return err
		}
		if _, told := policies[it.Policy]; !told && it.Policy != "" {
			var one struct {
				Definition Policy `json:"definition"`
			}
			err := m.client.Get(ctx, management.Request{Op: lookAtPolicies, Path: management.Path("policies", m.vhost, it.Policy)}, &one)
			if errors.Is(err, delayer.ErrAccess) {
				a.Hidden[x.Name] = it.Policy
				continue
			}
			if err != nil && !errors.Is(err, delayer.ErrNotFound) { // it was deleted in between
				return err
			}
			policies[it.Policy] = one.Definition
		}
		a.Exchanges[x.Name] = policies[it.Policy]
		if (x.DelayedKind != "" || x.Alternate != "") && len(exchangeHarm(x, a.Exchanges[x.Name])) == 0 {
			m.sound[x.Name] = time.Now()
		}
	}
	return nil
}

const lookAtPolicies = "look at policies"

// A Policy holds the keys that apply to one queue or exchange, whichever policies they are from.
type Policy map[string]any

// Policies are those of all existing queues and exchanges, by name.
type Policies struct {
	Queues, Exchanges map[string]Policy

	Untold []string          // queues of which the API does not tell
	Hidden map[string]string // exchanges, with the policy that the API does not show this user
}

// Harm returns the harm that policies do to a plan, one difference for each object and key, and
// what is unknown.
func Harm(p topology.Plan, a Policies) []Difference {
	var found []Difference
	if n := len(a.Untold); n > 0 {
		found = append(found, Difference{IsUnknown, "policies", fmt.Sprintf(
			"the management API does not tell what policies set for %d of %d queues, %s first (it does not with management.disable_stats): look at rabbitmqctl list_policies and list_operator_policies",
			n, len(p.Queues), a.Untold[0])})
	}
	for _, x := range p.Exchanges {
		if policy, is := a.Hidden[x.Name]; is {
			found = append(found, Difference{IsUnknown, describe("exchange", x.Name), fmt.Sprintf(
				"policy %q applies to it, and the user of management may not see what that sets: give the user the tag policymaker too, or keep the policy from our names", policy)})
		}
		found = append(found, exchangeHarm(x, a.Exchanges[x.Name])...)
	}
	for _, q := range p.Queues {
		found = append(found, queueHarm(q, a.Queues[q.Name])...)
	}
	return slices.Compact(found)
}

// harmless are the policy keys that neither change which messages a queue or an exchange of ours
// has, nor make a message that was never delivered late. Those of ha and streams concern other
// types. The last five concern what a consumer has: it comes again, or later.
var harmless = []string{
	"dead-letter-strategy", "queue-mode", "queue-version", "max-in-memory-length", "max-in-memory-bytes",
	"queue-leader-locator", "queue-master-locator", "initial-cluster-size", "target-group-size",
	"ha-mode", "ha-params", "ha-promote-on-failure", "ha-promote-on-shutdown", "ha-sync-batch-size", "ha-sync-mode",
	"routing-key", "max-age", "stream-max-segment-size-bytes", "stream-filter-size-bytes",
	"delayed-retry-type", "delayed-retry-min", "delayed-retry-max", "consumer-timeout", "consumer-disconnected-timeout",
}

// harmful are those that exchangeHarm and queueHarm check.
var harmful = []string{
	"message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "delivery-limit",
	"dead-letter-exchange", "dead-letter-routing-key", "alternate-exchange", "shards-per-node",
}

// keyHarm checks what concerns every object: federation, and keys whose effect is not known.
func keyHarm(object string, d Policy) (found []Difference) {
	for _, key := range slices.Sorted(maps.Keys(d)) {
		switch {
		case strings.HasPrefix(key, "federation-upstream"):
			found = append(found, Difference{IsHarmed, object, fmt.Sprintf("a policy sets %s to %v, which would bring it messages of other brokers", key, d[key])})
		case !slices.Contains(harmless, key) && !slices.Contains(harmful, key):
			found = append(found, Difference{IsUnknown, object, fmt.Sprintf(
				"a policy sets %s, and this version does not know what that does to messages: keep the policy from our names", key)})
		}
	}
	return found
}

// exchangeHarm checks the policy keys that concern an exchange.
func exchangeHarm(x topology.Exchange, d Policy) []Difference {
	object := describe("exchange", x.Name)
	found := keyHarm(object, d)
	if d["shards-per-node"] != nil { // whatever its type is
		found = append(found, Difference{IsHarmed, object, "a policy sets shards-per-node, which would bind queues to it that keep copies of messages"})
	}
	if d["alternate-exchange"] != nil && x.Alternate == "" {
		effect := "take messages that must be returned"
		if x.DelayedKind != "" {
			effect = "get a copy of every delayed message at once"
		}
		found = append(found, Difference{IsHarmed, object, "a policy sets alternate-exchange, which would " + effect})
	}
	return found
}

// queueHarm checks the policy keys that win over the arguments of a queue, or are combined with
// them.
func queueHarm(q topology.Queue, d Policy) []Difference {
	found := keyHarm(describe("queue", q.Name), d)
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
