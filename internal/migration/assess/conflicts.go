package assess

import (
	"fmt"
	"strings"

	"github.com/delayer-go/delayer/internal/migration/inventory"
	"github.com/delayer-go/delayer/internal/topology"
)

// conflicts are objects under our names that are something else.
func conflicts(q Question) []Finding {
	existing := map[string]inventory.Exchange{}
	for _, x := range q.Exchanges {
		existing[x.Name] = x
	}
	var found []Finding
	for _, m := range q.Topology.Markers {
		if x, ok := existing[m.Name]; ok && x.Arguments["alternate-exchange"] != m.Config {
			found = append(found, Finding{Blocker, "prefix " + q.Prefix, fmt.Sprintf("a Delayer of another configuration uses it (%v; this one is %s)", x.Arguments["alternate-exchange"], m.Config),
				"take the configuration of that Delayer, or another prefix"})
		}
	}
	for _, x := range q.Topology.Exchanges {
		if differs := exchangeDiffers(x, existing[x.Name]); differs != "" {
			found = append(found, taken(q, exchangeNamed(x.Name), differs))
		}
	}
	return append(found, queueConflicts(q)...)
}

// exchangeDiffers says how an exchange is not what we need; one without a name does not exist.
func exchangeDiffers(want topology.Exchange, have inventory.Exchange) string {
	alternate, _ := have.Arguments["alternate-exchange"].(string)
	switch {
	case have.Name == "":
		return ""
	case have.Type != want.Kind:
		return fmt.Sprintf("it is of type %s, and %s is needed", have.Type, want.Kind)
	case alternate != want.Alternate:
		return fmt.Sprintf("its alternate exchange is %q, and %q is needed", alternate, want.Alternate)
	case !have.Durable || have.AutoDelete || have.Internal:
		return "it is transient, auto-delete or internal"
	}
	return ""
}

func queueConflicts(q Question) []Finding {
	existing := map[string]inventory.Queue{}
	for _, queue := range q.Queues {
		existing[queue.Name] = queue
	}
	var found []Finding
	for _, want := range q.Topology.Queues {
		have, ok := existing[want.Name]
		if !ok {
			continue
		}
		for key, value := range want.Args {
			if fmt.Sprint(have.Arguments[key]) != fmt.Sprint(value) {
				found = append(found, taken(q, fmt.Sprintf("queue %q", want.Name), fmt.Sprintf("its %s is %v, and %v is needed", key, have.Arguments[key], value)))
				break
			}
		}
	}
	return found
}

// begun are migrations whose records the broker holds.
func begun(q Question) []Finding {
	found := []Finding{}
	for _, queue := range q.Queues {
		if strings.HasPrefix(queue.Name, migrationNames(q)) {
			found = append(found, Finding{Note, fmt.Sprintf("queue %q", queue.Name), "a migration has begun", "delayer migrate status"})
		}
	}
	return found
}

func taken(q Question, about, differs string) Finding {
	return Finding{Blocker, about, "the name is needed and in use: " + differs, fmt.Sprintf("take another prefix than %q, or delete it if nothing uses it", q.Prefix)}
}
