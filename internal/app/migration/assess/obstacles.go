package assess

import (
	"fmt"
	"slices"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/topology"
)

// series is about the RabbitMQ version and what it does to the plugin.
func series(q Question) []Finding {
	var found []Finding
	about := "RabbitMQ " + q.Version
	last := atLeast(q.Version, 4, 3)
	switch {
	case last:
		found = append(found, Finding{Blocker, about, "it has no Mnesia and cannot run the plugin: nothing waits there, and exchanges of type x-delayed-message route nothing",
			"what waited is on the broker of the former series: migrate there. Here, delete the exchanges and declare them with an ordinary type"})
	case !enabled(q):
		found = append(found, Finding{Blocker, about, "the plugin is not enabled: exchanges of type x-delayed-message route nothing. Disabling it deletes what waits",
			"rabbitmq-plugins enable rabbitmq_delayed_message_exchange, then assess again"})
	}
	if !last && atLeast(q.Version, 4, 0) {
		found = append(found, khepri(q, about))
	}
	if !atLeast(q.Version, 3, 13) {
		found = append(found, Finding{Warning, "mode serve", "before RabbitMQ 3.13 consumers see x-delay as it was published, so what waits in the plugin at the switch " +
			"waits a second time in delayer serve: late, not lost", "evacuate right after the switch with --leave 10s; or switch in place"})
	}
	if !atLeast(q.Version, 3, 10) {
		found = append(found, Finding{Warning, about, "Delayer is tested from 3.10 on", "rehearse on a broker of your own"})
	}
	quorum := slices.ContainsFunc(q.Topology.Queues, func(queue topology.Queue) bool { return queue.Args["x-queue-type"] == "quorum" })
	if quorum && slices.Contains(q.Features, inventory.Feature{Name: "quorum_queue", State: "disabled"}) {
		found = append(found, Finding{Blocker, "feature flag quorum_queue", "it is off, and the configuration wants quorum queues", "rabbitmqctl enable_feature_flag quorum_queue"})
	}
	return found
}

func enabled(q Question) bool { return slices.Contains(q.ExchangeTypes, inventory.DelayedMessage) }

// way is how the exchanges will be switched.
func way(q Question) []Finding {
	const about = "switch"
	switch {
	case !enabled(q) || atLeast(q.Version, 4, 3):
		return nil
	case !q.Asked:
		return []Finding{{Warning, about, "without --rabbitmqctl an exchange is deleted and declared again: publishers get 404 NOT_FOUND meanwhile, and what falls due is lost",
			"give --rabbitmqctl, which changes it in one transaction"}}
	case !q.Enabled(inventory.Khepri):
		return []Finding{{Note, about, "with --rabbitmqctl it takes one transaction of Mnesia on the node: nothing is lost, and no publisher sees an error", ""}}
	case !atLeast(q.Version, 4, 0):
		return []Finding{{Warning, about, "RabbitMQ " + q.Version + " has an early Khepri, which --rabbitmqctl refuses; without it an exchange is deleted and declared again", "stop the publishers meanwhile"}}
	}
	return []Finding{{Note, about, "with --rabbitmqctl it takes one transaction of Khepri on the node: nothing is lost, and no publisher sees an error", ""}}
}

// khepri is about the store that deletes the plugin's tables.
func khepri(q Question, about string) Finding {
	switch {
	case q.Enabled(inventory.Khepri):
		return Finding{Warning, about, "feature flag " + inventory.Khepri + " is on. What waited when it was enabled is gone, unless the plugin came later", ""}
	case len(q.Features) == 0:
		return Finding{Warning, about, "enabling " + inventory.Khepri + " deletes the plugin's tables with all that waits; whether it is on cannot be seen", "do not enable it before retire"}
	}
	return Finding{Warning, about, "feature flag " + inventory.Khepri + " is off. Enabling it deletes the plugin's tables with all that waits, and RabbitMQ 4.3 demands it",
		"neither enable it nor upgrade to 4.3 before retire; beware of enable_feature_flag all"}
}

// clusterNodes is about the table that each node has of its own.
func clusterNodes(q Question) []Finding {
	var found []Finding
	for _, n := range q.Nodes {
		switch {
		case !n.Running:
			found = append(found, Finding{Blocker, "node " + n.Name, "it does not run: what waits there can be neither counted nor moved", "start it, or decide that what waits there is lost and remove it: rabbitmqctl forget_cluster_node"})
		case n.Plugin == "" && slices.ContainsFunc(q.Nodes, func(n inventory.Node) bool { return n.Plugin != "" }):
			found = append(found, Finding{Warning, "node " + n.Name, "it does not run the plugin", "nothing waits there; clients that are connected to it cannot publish with a delay"})
		}
	}
	if len(q.Nodes) > 1 && !q.Asked {
		found = append(found, Finding{Note, "cluster", fmt.Sprintf("each of the %d nodes has a table of its own; the management API counts that of the node that answers", len(q.Nodes)),
			"give --rabbitmqctl to count all"})
	}
	return found
}

// atLeast compares the series of a version. One that cannot be read is new.
func atLeast(version string, major, minor int) bool {
	var first, second int
	_, err := fmt.Sscanf(version, "%d.%d", &first, &second)
	return err != nil || first > major || first == major && second >= minor
}

// neighbours are others that move messages from or to an exchange of the plugin.
func neighbours(q Question) []Finding {
	var found []Finding
	for _, s := range q.Shovels {
		for _, d := range q.Delayed {
			switch d.Name {
			case s.TargetExchange:
				found = append(found, Finding{Warning, fmt.Sprintf("shovel %q", s.Name), fmt.Sprintf("it publishes to %s: an x-delay of its messages is delayed by delayer serve alone", exchangeNamed(d.Name)),
					"take --mode serve, or move the shovel's target"})
			case s.SourceExchange:
				found = append(found, Finding{Note, fmt.Sprintf("shovel %q", s.Name), fmt.Sprintf("it consumes from %s through a queue of its own; the switch carries its binding over", exchangeNamed(d.Name)), ""})
			}
		}
	}
	return found
}
