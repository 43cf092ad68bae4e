package assess

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
)

// An Exchange is one of the plugin.
type Exchange struct {
	Name        string         `json:"name"`
	Type        string         `json:"type"` // by which it routes: its x-delayed-type
	Durable     bool           `json:"durable"`
	AutoDelete  bool           `json:"auto_delete"`
	Internal    bool           `json:"internal"`
	Arguments   map[string]any `json:"arguments"`
	To          []OtherEnd     `json:"to"`
	From        []OtherEnd     `json:"from"`         // exchanges that lead to it
	AlternateOf []string       `json:"alternate_of"` // exchanges whose alternate it is
	Policy      string         `json:"policy,omitempty"`
	Rate        float64        `json:"publish_per_second"`
	Pending     *int64         `json:"pending"` // null if unknown
	// AllNodes reports that Pending counts every node that answers; otherwise it is of one node.
	AllNodes bool `json:"pending_of_all_nodes"`
}

// An OtherEnd is a binding as seen from the exchange.
type OtherEnd struct {
	Kind      string         `json:"kind"` // queue or exchange
	Name      string         `json:"name"`
	Key       string         `json:"key"`
	Arguments map[string]any `json:"arguments"`
}

func exchanges(q Question) []Exchange {
	list := []Exchange{}
	for _, d := range q.Delayed {
		x := Exchange{
			Name: d.Name, Type: d.DelayedType(), Durable: d.Durable, AutoDelete: d.AutoDelete, Internal: d.Internal,
			Arguments: d.Arguments, Policy: d.Policy, Rate: d.Rate, Pending: d.Pending, AllNodes: len(q.Nodes) == 1,
			To: []OtherEnd{}, From: []OtherEnd{}, AlternateOf: alternateOf(q.Inventory, d.Name),
		}
		for _, b := range d.Out {
			x.To = append(x.To, OtherEnd{b.Kind(), b.Target, b.Key, b.Arguments})
		}
		for _, b := range d.In {
			x.From = append(x.From, OtherEnd{"exchange", b.Source, b.Key, b.Arguments})
		}
		if q.Asked {
			x.Pending, x.AllNodes = new(int64), true
			for _, w := range q.Waiting {
				if w.Exchange == d.Name {
					*x.Pending += int64(w.Messages)
				}
			}
		}
		list = append(list, x)
	}
	return list
}

// alternateOf lists the exchanges whose alternate exchange it is, by argument or by policy.
func alternateOf(v inventory.Inventory, name string) []string {
	list := []string{}
	for _, x := range v.Exchanges {
		if alternate(v, x) == name {
			list = append(list, x.Name)
		}
	}
	return list
}

// alternate is the alternate exchange of x, or "". The argument wins over a policy.
func alternate(v inventory.Inventory, x inventory.Exchange) string {
	if name, ok := x.Arguments["alternate-exchange"].(string); ok {
		return name
	}
	name, _ := policyOf(v, x)["alternate-exchange"].(string)
	return name
}

func policyOf(v inventory.Inventory, x inventory.Exchange) map[string]any {
	for _, p := range v.Policies {
		if p.Name == x.Policy {
			return p.Definition
		}
	}
	return nil
}

// exchangeFindings are about what an exchange of the plugin is, and is to others.
func exchangeFindings(q Question) []Finding {
	var found []Finding
	for _, d := range q.Delayed {
		about := exchangeNamed(d.Name)
		add := func(level Level, says, do string) { found = append(found, Finding{level, about, says, do}) }
		if to := alternate(q.Inventory, d.Exchange); to != "" {
			add(Warning, fmt.Sprintf("it has alternate exchange %q, to which the plugin gives a copy of every delayed message at once; "+
				"after the switch only unroutable messages go there", to), "see whether a consumer counts on those copies")
		}
		for _, other := range alternateOf(q.Inventory, d.Name) {
			add(Note, fmt.Sprintf("it is the alternate exchange of %q; it stays so, as the switch keeps the name", other), "")
		}
		if len(d.In) > 0 {
			add(Note, "other exchanges lead to it; the switch carries these bindings over. An x-delay that comes that way is delayed by delayer serve; "+
				"without it, those who publish to the other exchanges must use the library too", "")
		}
		if !d.Durable {
			add(Warning, "it is transient: it, and all that waits for it, is gone after a restart of the broker. To delayer serve it is switched as without --rabbitmqctl, and is durable then",
				"migrate between two restarts")
		}
		if d.AutoDelete {
			add(Warning, "it is auto-delete: RabbitMQ deletes it with its last binding, and then loses what waits for it", "keep one binding until retire")
		}
		if !slices.Contains(inventory.KnownTypes, d.DelayedType()) {
			add(Warning, fmt.Sprintf("its x-delayed-type is %q, which was not tested; the switch deletes and declares it again, also with --rabbitmqctl", d.DelayedType()), "rehearse on a broker of your own; keep the plugin that provides the type")
		}
		if d.DelayedType() == amqp091.ExchangeTopic && q.Enabled(inventory.Khepri) {
			add(Warning, "it drops all that is due: in Khepri RabbitMQ has no routing table for a topic exchange of the plugin. What still waits is delivered after the switch",
				"switch it soon; a rollback makes it drop again")
		}
		if len(d.Out) == 0 && len(d.In) == 0 {
			add(Note, "nothing is bound to it: what is due is dropped, before and after", "")
		}
		if d.Policy != "" {
			found = append(found, policyFinding(q, d, about))
		}
	}
	return found
}

func policyFinding(q Question, d inventory.Delayed, about string) Finding {
	keys := slices.Sorted(maps.Keys(policyOf(q.Inventory, d.Exchange)))
	if slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, "federation-upstream") }) {
		return Finding{Warning, about, fmt.Sprintf("policy %q federates it: messages of other brokers come through a link, which the switch closes and opens", d.Policy),
			"look at the link's status after the switch: rabbitmqctl federation_status"}
	}
	return Finding{Note, about, fmt.Sprintf("policy %q applies (%s), and will apply to the exchange that takes its name", d.Policy, strings.Join(keys, ", ")), ""}
}

func exchangeNamed(name string) string { return fmt.Sprintf("exchange %q", name) }
