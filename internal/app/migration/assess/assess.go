// Package assess says what is to be decided before a migration, and what stands in its way: a
// checklist. It is pure: it takes what package inventory read.
package assess

import (
	"fmt"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// A Question is what is known.
type Question struct {
	inventory.Inventory
	Prefix  string
	Backend string         // of the configuration
	Limits  delayer.Limits // of the configuration
	// Unreached says which nodes rabbitmqctl did not reach; nil: it reached all.
	Unreached error
}

// A Level says how much a finding matters.
type Level int

// The levels.
const (
	Blocker Level = iota // stands in the way
	Warning              // is to be decided, or kept in mind, before the switch
	Note
)

// A Finding is something that matters to the migration, and what to do about it.
type Finding struct {
	Level           Level
	About, Says, Do string // Do may be ""
}

type findings []Finding

func (f *findings) add(level Level, about, says, do string) {
	*f = append(*f, Finding{level, about, says, do})
}

// Assess answers. Findings are sorted by level.
func Assess(q Question) []Finding {
	var f findings
	if len(q.Delayed) > 0 {
		f.broker(q)
		f.configuration(q)
		for _, d := range q.Delayed {
			f.exchange(q, d)
		}
		f.add(Warning, "applications", "those that declare an exchange as x-delayed-message when they start get 406 PRECONDITION_FAILED after the switch, or 503 once the plugin is disabled. The broker does not show which do",
			"before the switch, let them connect to the proxy of delayer serve, or declare it passively, or not at all")
	}
	for _, x := range q.Exchanges {
		if _, _, err := record.Of(q.Prefix, x); err != nil {
			f.add(Note, "migrations", err.Error(), "")
		}
	}
	if q.Unreached != nil {
		f.add(Note, "what waits on every node", "could not be seen: "+q.Unreached.Error(), "")
	}
	slices.SortStableFunc(f, func(f, g Finding) int { return int(f.Level) - int(g.Level) })
	return f
}

// A Step is how far an exchange is.
type Step struct {
	Exchange, Type string
	Mode           record.Mode // "" before the switch
	Next           string
}

// Steps are those of the exchanges that have a record, and then of the plugin's without one. empty
// says whether nothing waits for an exchange on the nodes that rabbitmqctl reached.
func Steps(q Question, empty func(exchange string) bool) (steps []Step) {
	recorded := map[string]bool{}
	for _, marker := range q.Exchanges {
		r, is, _ := record.Of(q.Prefix, marker)
		if !is {
			continue
		}
		s := Step{Exchange: string(r.Exchange), Type: "-", Mode: r.Mode, Next: "declare it, or let it be: it does not exist any more"}
		recorded[s.Exchange] = true
		for _, x := range q.Exchanges {
			switch {
			case x.Name != s.Exchange:
				continue
			case x.Delayed():
				s.Next = "switch --mode " + string(r.Mode) + " again, or rollback: it was interrupted"
			case q.Unreached == nil && empty(x.Name):
				s.Next = "retire"
			default:
				s.Next = "wait or evacuate, then retire"
			}
			s.Type = x.Type
		}
		steps = append(steps, s)
	}
	for _, d := range q.Delayed {
		if !recorded[d.Name] {
			steps = append(steps, Step{Exchange: d.Name, Type: d.DelayedType(), Next: "switch"})
		}
	}
	return steps
}

// atLeast compares the series of a version. One that cannot be read is new.
func atLeast(version string, major, minor int) bool {
	var first, second int
	_, err := fmt.Sscanf(version, "%d.%d", &first, &second)
	return err != nil || first > major || first == major && second >= minor
}

// broker is about the RabbitMQ version and what it does to the plugin, and about the nodes, each of
// which has a table of its own.
func (f *findings) broker(q Question) {
	about := "RabbitMQ " + q.Version
	switch {
	case atLeast(q.Version, 4, 3):
		f.add(Blocker, about, "it has no Mnesia and cannot run the plugin: nothing waits there, and exchanges of type x-delayed-message route nothing",
			"what waited is on the broker of the former series: migrate there. Here, delete the exchanges and declare them with an ordinary type")
	case !slices.Contains(q.ExchangeTypes, inventory.DelayedMessage):
		f.add(Blocker, about, "the plugin is not enabled: exchanges of type x-delayed-message route nothing. Disabling it deletes what waits",
			"rabbitmq-plugins enable rabbitmq_delayed_message_exchange, then assess again")
	case !atLeast(q.Version, 4, 0) && q.Enabled(inventory.Khepri):
		f.add(Blocker, about, "it has an early Khepri, in which no exchange can be switched", "upgrade to 4.0, 4.1 or 4.2")
	case !atLeast(q.Version, 4, 0):
	case q.Enabled(inventory.Khepri):
		f.add(Warning, about, "feature flag khepri_db is on. What waited when it was enabled is gone, unless the plugin came later", "")
	default:
		f.add(Warning, about, "feature flag khepri_db is off. Enabling it deletes the plugin's tables with all that waits, and RabbitMQ 4.3 demands it",
			"neither enable it nor upgrade to 4.3 before retire; beware of enable_feature_flag all")
	}
	if !atLeast(q.Version, 3, 13) {
		f.add(Warning, "mode serve", "before RabbitMQ 3.13 consumers see x-delay as it was published, so what waits in the plugin at the switch waits a second time in delayer serve: late, not lost",
			"evacuate right after the switch with --leave 10s; or switch in place")
	}
	for _, n := range q.Nodes {
		if !n.Running {
			f.add(Blocker, "node "+n.Name, "it does not run: what waits there can be neither counted nor moved",
				"start it, or decide that what waits there is lost and remove it: rabbitmqctl forget_cluster_node")
		}
	}
}

// PluginMax is the longest x-delay that the plugin takes.
const PluginMax = (1<<32 - 1) * time.Millisecond

// Leaving is the backend that a migration leaves.
const Leaving = "plugin"

// configuration is about the backend that takes over. No API shows which delays are used, so any
// that the plugin takes is assumed.
func (f *findings) configuration(q Question) {
	about := "backend " + q.Backend
	l := q.Limits
	switch {
	case q.Backend == Leaving:
		f.add(Blocker, about, "it is what you leave", "configure another: backend: binaryladder")
		return
	case l.Max < PluginMax:
		f.add(Warning, about, fmt.Sprintf("its longest delay is %s, the plugin's 49.7 days: longer ones are refused", cli.Short(l.Max)), "does your code use longer ones?")
	}
	switch {
	case len(l.Tiers) > 0:
		f.add(Warning, about, fmt.Sprintf("it has %s only; others become the next longer one, or are refused", cli.Count(len(l.Tiers), "delay")), "does your code use others?")
	case l.Resolution > time.Millisecond:
		f.add(Warning, about, fmt.Sprintf("its tick is %s: other delays become the next longer one",
			cli.Short(l.Resolution)), "does your code use finer ones? backend: binaryladder, binaryladder: {tick: 1ms}")
	}
	if !l.Ordered {
		f.add(Note, about, "messages with equal delays do not keep their order", "")
	}
	f.add(Note, about, "whether its names are free, the user's permissions suffice and no policy harms it is not looked at here", "delayer topology apply, then delayer topology verify")
}

func (f *findings) exchange(q Question, d inventory.Definition) {
	about := fmt.Sprintf("exchange %q", d.Name)
	if to, _ := d.Arguments["alternate-exchange"].(string); to != "" {
		f.add(Warning, about, fmt.Sprintf("it has alternate exchange %q, to which the plugin gives a copy of every delayed message at once; after the switch only unroutable messages go there", to),
			"see whether a consumer counts on those copies")
	}
	if len(d.In) > 0 {
		f.add(Note, about, "other exchanges lead to it, and will. An x-delay that comes that way is delayed by delayer serve; without it, those who publish to the other exchanges must use the library too", "")
	}
	if !d.Durable {
		f.add(Warning, about, "it is transient: it, and all that waits for it, is gone after a restart of the broker. It cannot be switched to delayer serve",
			"migrate between two restarts, in place")
	}
	if d.AutoDelete {
		f.add(Warning, about, "it is auto-delete: RabbitMQ deletes it with its last binding, and then loses what waits for it", "keep one binding until retire")
	}
	switch {
	case !record.CanBeSwitched(d.Exchange):
		f.add(Blocker, about, fmt.Sprintf("its x-delayed-type is %q: it cannot be switched", d.DelayedType()), "let its publishers use another exchange, wait until nothing is left, and delete it")
	case d.DelayedType() == amqp091.ExchangeTopic && q.Enabled(inventory.Khepri):
		f.add(Warning, about, "it drops all that is due: in Khepri RabbitMQ has no routing table for a topic exchange of the plugin. What still waits is delivered after the switch",
			"switch it soon; a rollback makes it drop again")
	}
}
