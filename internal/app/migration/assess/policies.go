package assess

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// policies are the harm that those of the vhost would do to the new topology, which need not exist.
func policies(q Question) []Finding {
	applied := objects.Policies{Queues: map[string]objects.Policy{}, Exchanges: map[string]objects.Policy{}}
	for _, queue := range q.Topology.Queues {
		kind, _ := queue.Args["x-queue-type"].(string)
		applied.Queues[queue.Name] = merged(
			effective(q.Policies, queue.Name, "queues", kind+"_queues"), effective(q.OperatorPolicies, queue.Name, "queues", kind+"_queues"))
	}
	for _, x := range q.Topology.Exchanges {
		applied.Exchanges[x.Name] = effective(q.Policies, x.Name, "exchanges")
	}
	harm := objects.Harm(q.Topology, applied)
	if len(harm) == 0 {
		return nil
	}
	return []Finding{{Blocker, "policies", objects.Summary(harm), objects.PolicyRemedy(q.Prefix)}}
}

// effective is the definition of the policy that would apply to an object of these kinds: the one
// of the highest priority.
func effective(all []inventory.Policy, name string, kinds ...string) objects.Policy {
	var best *inventory.Policy
	for i, p := range all {
		pattern, ok := compile(p.Pattern)
		if ok && pattern.matches(name) && (p.ApplyTo == "all" || slices.Contains(kinds, p.ApplyTo)) && (best == nil || p.Priority > best.Priority) {
			best = &all[i]
		}
	}
	if best == nil {
		return nil
	}
	return best.Definition
}

// merged is what applies of a policy and an operator policy: of two numbers the smaller one, and
// else what the operator says.
func merged(user, operator objects.Policy) objects.Policy {
	both := maps.Clone(user)
	if both == nil {
		both = objects.Policy{}
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

// A kind of permission, what is granted and for which names it is needed.
type kind struct {
	name    string
	granted string
	needed  []string
}

// kinds are what the user of the AMQP address needs.
func kinds(q Question) []kind {
	ours := []string{record.Names(q.Prefix)} // for those that a migration gives its own objects
	for _, x := range q.Topology.Exchanges {
		ours = append(ours, x.Name)
	}
	for _, queue := range q.Topology.Queues {
		ours = append(ours, queue.Name)
	}
	var declared, targets, sources []string
	for _, d := range q.Delayed {
		declared = append(declared, d.Name)
		for _, b := range d.Out {
			targets = append(targets, b.Target)
		}
		for _, b := range d.In {
			sources = append(sources, b.Source)
		}
	}
	granted := inventory.Permission{}
	if q.Permission != nil {
		granted = *q.Permission
	}
	own := ours
	if !q.Declares {
		own = ours[:1]
	}
	return []kind{
		{"configure", granted.Configure, slices.Concat(own, declared)},
		{"write", granted.Write, slices.Concat(ours, declared, targets)},
		{"read", granted.Read, slices.Concat(ours, declared, sources)},
	}
}

// permissions compares the user's patterns with the names that a migration uses.
func permissions(q Question) []Finding {
	if q.Permission == nil {
		return nil
	}
	var found []Finding
	for _, k := range kinds(q) {
		if refused := refusedNames(k); len(refused) > 0 {
			found = append(found, Finding{
				Blocker, "user " + q.User, fmt.Sprintf("permission to %s is missing for %s (it has %q)", k.name, few(refused), k.granted),
				fmt.Sprintf("rabbitmqctl set_permissions -p %s %s … with a pattern that matches them; docs/security.md has those for each role", cli.Quote(q.Vhost), cli.Quote(q.User)),
			})
		}
	}
	return found
}

// refusedNames are those that the pattern does not grant. An empty one grants nothing; one that
// cannot be judged is not held against the user.
func refusedNames(k kind) []string {
	p, ok := compile(k.granted)
	if k.granted != "" && !ok {
		return nil
	}
	var refused []string
	for _, name := range k.needed {
		if (k.granted == "" || !p.matches(name)) && !slices.Contains(refused, name) {
			refused = append(refused, name)
		}
	}
	return refused
}

// few names at most three.
func few(names []string) string {
	const most = 3
	list := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		list = append(list, fmt.Sprintf("%q", name))
	}
	text := strings.Join(list, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// A pattern is a regular expression of the broker's: of a policy, or of permissions.
type pattern struct {
	except *regexp.Regexp // names that it refuses; may be nil
	match  *regexp.Regexp
}

// compile reads a pattern. RabbitMQ's have more than Go's: of what Go lacks, it reads a negative
// lookahead at the start, ^(?!…), as it is written to keep policies from a prefix.
func compile(text string) (pattern, bool) {
	if match, err := regexp.Compile(text); err == nil {
		return pattern{match: match}, true
	}
	rest, found := strings.CutPrefix(text, "^(?!")
	if !found {
		return pattern{}, false
	}
	end := closing(rest)
	if end < 0 {
		return pattern{}, false
	}
	except, err1 := regexp.Compile("^(?:" + rest[:end] + ")")
	match, err2 := regexp.Compile("^(?:" + rest[end+1:] + ")")
	return pattern{except, match}, err1 == nil && err2 == nil
}

// closing is where the group ends that text is in, or -1.
func closing(text string) int {
	depth := 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func (p pattern) matches(name string) bool {
	return (p.except == nil || !p.except.MatchString(name)) && p.match.MatchString(name)
}

// unseenPatterns names the patterns that cannot be judged.
func unseenPatterns(q Question) []inventory.Unseen {
	var list []inventory.Unseen
	unread := func(what, text string) {
		if _, ok := compile(text); !ok {
			list = append(list, inventory.Unseen{What: what, Why: fmt.Sprintf("its pattern %q is of a kind that is not read here: see for yourself whether it matches", text)})
		}
	}
	for _, p := range q.Policies {
		unread(fmt.Sprintf("the effect of policy %q", p.Name), p.Pattern)
	}
	for _, p := range q.OperatorPolicies {
		unread(fmt.Sprintf("the effect of operator policy %q", p.Name), p.Pattern)
	}
	if q.Permission != nil {
		for _, kind := range kinds(q) {
			unread(fmt.Sprintf("the permission of user %s to %s", q.User, kind.name), kind.granted)
		}
	}
	return list
}
