package assess

import (
	"maps"

	"github.com/delayer-go/delayer/internal/migration/inventory"
	"github.com/delayer-go/delayer/internal/policy"
	"github.com/delayer-go/delayer/internal/topology"
)

// policies are the harm that those of the vhost would do to the new topology, which need not exist.
func policies(q Question) []Finding {
	applied := policy.Applied{Queues: map[string]policy.Definition{}, Exchanges: map[string]policy.Definition{}}
	for _, queue := range q.Topology.Queues {
		kind, _ := queue.Args["x-queue-type"].(string)
		applied.Queues[queue.Name] = merged(
			effective(q.Policies, queue.Name, "queues", kind+"_queues"), effective(q.OperatorPolicies, queue.Name, "queues", kind+"_queues"))
	}
	for _, x := range q.Topology.Exchanges {
		applied.Exchanges[x.Name] = effective(q.Policies, x.Name, "exchanges")
	}
	harm := policy.Harm(q.Topology, applied)
	if len(harm) == 0 {
		return nil
	}
	return []Finding{{Blocker, "policies", topology.Summary(harm), topology.PolicyRemedy(q.Prefix)}}
}

// effective is the definition of the policy that would apply to an object of these kinds: the one
// of the highest priority.
func effective(all []inventory.Policy, name string, kinds ...string) policy.Definition {
	var best *inventory.Policy
	for i, p := range all {
		pattern, ok := compile(p.Pattern)
		if ok && pattern.matches(name) && appliesTo(p, kinds) && (best == nil || p.Priority > best.Priority) {
			best = &all[i]
		}
	}
	if best == nil {
		return nil
	}
	return best.Definition
}

func appliesTo(p inventory.Policy, kinds []string) bool {
	if p.ApplyTo == "all" {
		return true
	}
	for _, kind := range kinds {
		if p.ApplyTo == kind {
			return true
		}
	}
	return false
}

// merged is what applies of a policy and an operator policy: of two numbers the smaller one, and
// else what the operator says.
func merged(user, operator policy.Definition) policy.Definition {
	both := maps.Clone(user)
	if both == nil {
		both = policy.Definition{}
	}
	for key, value := range operator {
		n, isNumber := value.(float64)
		own, ownNumber := both[key].(float64)
		if isNumber && ownNumber {
			value = min(n, own)
		}
		both[key] = value
	}
	return both
}
