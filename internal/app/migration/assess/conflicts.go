package assess

import (
	"fmt"
	"strings"

	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// conflicts are objects under our names that are something else.
func conflicts(q Question) []Finding {
	there := objects.Actual{Exchanges: map[string]objects.Object{}, Queues: map[string]objects.Object{}}
	for _, x := range q.Exchanges {
		there.Exchanges[x.Name] = objects.Object{Kind: x.Type, Transient: !x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal, Args: x.Arguments}
	}
	for _, queue := range q.Queues {
		there.Queues[queue.Name] = objects.Object{Args: queue.Arguments}
	}
	var found []Finding
	plan := q.Topology
	for _, m := range plan.Markers {
		if x, ok := there.Exchanges[m.Name]; ok && x.Args["alternate-exchange"] != m.Config {
			found = append(found, Finding{Blocker, "prefix " + q.Prefix, fmt.Sprintf("a Delayer of another configuration uses it (%v; this one is %s)", x.Args["alternate-exchange"], m.Config),
				"take the configuration of that Delayer, or another prefix"})
		}
	}
	plan.Markers = nil
	for _, d := range objects.Compare(objects.Wanted{Plan: plan}, there) {
		if d.Kind == objects.IsOther {
			found = append(found, Finding{Blocker, d.Object, "the name is needed and in use: " + d.Detail,
				fmt.Sprintf("take another prefix than %q, or delete it if nothing uses it", q.Prefix)})
		}
	}
	return found
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
