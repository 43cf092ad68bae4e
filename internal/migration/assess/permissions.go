package assess

import (
	"fmt"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/internal/migration/inventory"
)

// A kind of permission, what is granted and for which names it is needed.
type kind struct {
	name    string
	granted string
	needed  []string
}

// migrationNames stands for the names that a migration gives its own objects.
func migrationNames(q Question) string { return q.Prefix + ".migration." }

// kinds are what the user of the AMQP address needs.
func kinds(q Question) []kind {
	ours := []string{migrationNames(q)}
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
				fmt.Sprintf("rabbitmqctl set_permissions -p %s %s … with a pattern that matches them; docs/security.md has those for each role", quote(q.Vhost), quote(q.User)),
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

// quote is a word as a shell reads it.
func quote(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`!*?[](){}<>|&;#~") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
