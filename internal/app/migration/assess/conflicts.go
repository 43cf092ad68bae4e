package assess

import (
	"fmt"
	"strings"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/topology"
)

// conflicts are objects under our names that are something else.
func conflicts(q Question) []Finding {
	existing, queues := map[string]inventory.Exchange{}, map[string]inventory.Queue{}
	for _, x := range q.Exchanges {
		existing[x.Name] = x
	}
	for _, queue := range q.Queues {
		queues[queue.Name] = queue
	}
	var found []Finding
	taken := func(about, differs string) {
		found = append(found, Finding{Blocker, about, "the name is needed and in use: " + differs,
			fmt.Sprintf("take another prefix than %q, or delete it if nothing uses it", q.Prefix)})
	}
	for _, m := range q.Topology.Markers {
		if x, ok := existing[m.Name]; ok && x.Arguments["alternate-exchange"] != m.Config {
			found = append(found, Finding{Blocker, "prefix " + q.Prefix, fmt.Sprintf("a Delayer of another configuration uses it (%v; this one is %s)", x.Arguments["alternate-exchange"], m.Config),
				"take the configuration of that Delayer, or another prefix"})
		}
	}
	for _, x := range q.Topology.Exchanges {
		if differs := exchangeDiffers(x, existing[x.Name]); differs != "" {
			taken(exchangeNamed(x.Name), differs)
		}
	}
	for _, want := range q.Topology.Queues {
		have, ok := queues[want.Name]
		for key, value := range want.Args {
			if ok && fmt.Sprint(have.Arguments[key]) != fmt.Sprint(value) {
				taken(fmt.Sprintf("queue %q", want.Name), fmt.Sprintf("its %s is %v, and %v is needed", key, have.Arguments[key], value))
				break
			}
		}
	}
	return found
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
	case !have.Durable || have.Internal:
		return "it is transient or internal"
	case have.AutoDelete != want.AutoDelete: // the gate of a Delayer's delivery is
		return fmt.Sprintf("its auto-delete is %v, and %v is needed", have.AutoDelete, want.AutoDelete)
	}
	return ""
}

// begun are migrations whose records the broker holds.
func begun(q Question) []Finding {
	found := []Finding{}
	for _, queue := range q.Queues {
		if strings.HasPrefix(queue.Name, record.Names(q.Prefix)) {
			found = append(found, Finding{Note, fmt.Sprintf("queue %q", queue.Name), "a migration has begun", "delayer migrate status"})
		}
	}
	return found
}
