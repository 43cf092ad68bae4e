package entry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// A Spec is an exchange that publishers publish to, with a header that says how long their messages wait.
type Spec struct {
	// Name is that of the exchange. It is declared if it is not there.
	Name string `yaml:"name"`
	// Type is direct, topic, fanout or headers, also of To. Default: topic.
	Type string `yaml:"type"`
	// To is the exchange that consumers bind to. It is declared if it is not there.
	To string `yaml:"to"`
	// Allow lists exchanges, instead of To: a header of each message, [ExchangeHeader], names one. In a name
	// of the list * stands for any text.
	Allow []string `yaml:"allow"`
	// TrustTimestamps is that of [Entry].
	TrustTimestamps bool `yaml:"trust_timestamps"`
	// KeepXDelay is that of [Entry].
	KeepXDelay bool `yaml:"keep_x_delay"`
}

var types = []string{amqp091.ExchangeDirect, amqp091.ExchangeTopic, amqp091.ExchangeFanout, amqp091.ExchangeHeaders}

// mostName is how long a name may be in bytes: names of queues are made of it and the prefix.
const mostName = 100

// Check returns why a list of entries makes no sense, or nil.
func Check(specs []Spec) error {
	var seen []string
	for i, s := range specs {
		if err := s.check(specs); err != nil {
			return fmt.Errorf("exchanges[%d] (name: %.120q): %w", i, s.Name, err)
		}
		if slices.Contains(seen, s.Name) {
			return fmt.Errorf("exchanges[%d]: %q is there twice", i, s.Name)
		}
		seen = append(seen, s.Name)
	}
	return nil
}

func (s Spec) check(all []Spec) error {
	isEntry := func(name string) bool {
		return slices.ContainsFunc(all, func(other Spec) bool { return other.Name == name })
	}
	switch {
	case s.Name == "":
		return fmt.Errorf("name is empty: write the exchange that publishers publish to")
	case len(s.Name) > mostName, len(s.To) > mostName:
		return fmt.Errorf("a name is longer than %d bytes", mostName)
	case strings.HasPrefix(s.Name, "amq."), strings.HasPrefix(s.To, "amq."):
		return fmt.Errorf("names that begin with amq. belong to the broker")
	case s.Type != "" && !slices.Contains(types, s.Type):
		return fmt.Errorf("type: %q is none of %s", s.Type, strings.Join(types, ", "))
	case s.To == "" && len(s.Allow) == 0:
		return fmt.Errorf("write to: the exchange that consumers bind to; or allow: those that publishers may choose")
	case s.To != "" && len(s.Allow) > 0:
		return fmt.Errorf("write to or allow, not both")
	case isEntry(s.To):
		return fmt.Errorf("to: %q is an entry itself: messages would go in a circle", s.To)
	case slices.Contains(s.Allow, ""):
		return fmt.Errorf("allow has an empty name: the default exchange would reach every queue")
	}
	return nil
}

// entry is what serves a spec under a prefix. Messages are not passed on to other entries.
func (s Spec) entry(prefix string, all []Spec) Entry {
	e := Entry{
		Exchange: s.Name, Names: NamesOf(prefix, s.Name), Plan: s.plan(prefix), To: Destinations{To: s.To},
		TrustTimestamps: s.TrustTimestamps, KeepXDelay: s.KeepXDelay,
	}
	if s.To == "" {
		allowed := pattern(s.Allow)
		e.To.Allow = func(name string) bool {
			isEntry := slices.ContainsFunc(all, func(s Spec) bool { return s.Name == name })
			return allowed.MatchString(name) && !isEntry && !strings.HasPrefix(name, prefix+".") // those are ours
		}
	}
	return e
}

// pattern matches the names of a list.
func pattern(list []string) *regexp.Regexp {
	var names []string
	for _, name := range list {
		names = append(names, strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, ".*"))
	}
	return regexp.MustCompile(`(?s)\A(?:` + strings.Join(names, "|") + `)\z`)
}

func named(prefix, what, exchange string) string { return prefix + ".serve." + what + "." + exchange }

// NamesOf are the queues of the entry of an exchange.
func NamesOf(prefix, exchange string) Names {
	return Names{
		Queue:  named(prefix, "queue", exchange),
		Back:   named(prefix, "back", exchange),
		Parked: named(prefix, "parked", exchange),
	}
}

func (s Spec) kind() string {
	if s.Type == "" {
		return amqp091.ExchangeTopic
	}
	return s.Type
}

func arguments() amqp091.Table {
	return amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": objects.NeverGivenUp, "x-overflow": "reject-publish"}
}

// QueueArguments are those of the first queue of an entry, which never drops a message: a full one refuses.
// The Expiration of a message, which the plugin does not count, runs there. What expires goes to the
// exchange expired.
func QueueArguments(expired string) amqp091.Table {
	args := arguments()
	args["x-max-length"] = objects.NeverFull
	args["x-dead-letter-exchange"] = expired
	args["x-dead-letter-strategy"] = "at-least-once"
	return args
}

// Side lists what an entry needs beside its exchange and its first queue.
func Side(n Names, expired string) topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: expired, Kind: topology.Fanout}},
		Queues:    []topology.Queue{{Name: n.Back, Args: arguments()}, {Name: n.Parked, Args: arguments()}},
		Bindings:  []topology.Binding{{Source: expired, Target: n.Back}},
	}
}

// plan has the exchange and what is behind it, but not To.
//
// A direct exchange leads nowhere by itself: which keys there will be is not known. So what it cannot
// route, which is all, takes its alternate exchange. Processes that disagree about the destination are told
// apart by the marker.
func (s Spec) plan(prefix string) topology.Plan {
	n, expired := NamesOf(prefix, s.Name), named(prefix, "expired", s.Name)
	p := Side(n, expired)
	p.Queues = append(p.Queues, topology.Queue{Name: n.Queue, Args: QueueArguments(expired)})
	config := fmt.Sprintf("%s:serve,%s,to=%s", prefix, s.kind(), s.To)
	p.Markers = []topology.Marker{{Name: named(prefix, "entry", s.Name), Config: config}}
	entry, lead := topology.Exchange{Name: s.Name, Kind: s.kind()}, topology.Binding{Source: s.Name, Target: n.Queue}
	switch entry.Kind {
	case amqp091.ExchangeTopic:
		lead.Key = "#"
	case amqp091.ExchangeDirect:
		entry.Alternate = named(prefix, "all", s.Name)
		lead.Source = entry.Alternate
		p.Exchanges = append(p.Exchanges, topology.Exchange{Name: entry.Alternate, Kind: topology.Fanout})
	}
	p.Exchanges, p.Bindings = append(p.Exchanges, entry), append(p.Bindings, lead)
	return p
}
