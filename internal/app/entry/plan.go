package entry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// A Spec is an exchange that publishers publish to, with a header that says how long their messages
// wait.
type Spec struct {
	// Name is that of the exchange. It is declared if it is not there.
	Name string `yaml:"name"`
	// Type is direct, topic, fanout or headers, also of To. Default: topic.
	Type string `yaml:"type"`
	// To is the exchange that consumers bind to. It is declared if it is not there.
	To string `yaml:"to"`
	// Allow lists exchanges, instead of To: a header of each message, [ExchangeHeader], names one.
	// In a name of the list * stands for any text.
	Allow []string `yaml:"allow"`

	proxied bool // see [Proxied]
}

// Types are the types of exchanges that every broker has.
var Types = []string{amqp091.ExchangeDirect, amqp091.ExchangeTopic, amqp091.ExchangeFanout, amqp091.ExchangeHeaders}

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
	case s.Type != "" && !slices.Contains(Types, s.Type):
		return fmt.Errorf("type: %q is none of %s", s.Type, strings.Join(Types, ", "))
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

// allowed tells to which exchanges its messages may go where publishers choose: not to other entries,
// and to nothing of the Delayer's.
func (s Spec) allowed(prefix string, refused []string) func(exchange string) bool {
	listed := Matches(s.Allow)
	return func(name string) bool {
		return listed(name) && !slices.Contains(refused, name) && !Owns(prefix, name)
	}
}

// Owns reports whether a name is of the Delayer with a prefix: nobody is let to publish there.
func Owns(prefix, name string) bool { return strings.HasPrefix(name, prefix+".") }

// Matches returns whether a name is in a list, in whose names * stands for any text.
func Matches(list []string) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(list, func(pattern string) bool { return like(name, pattern) })
	}
}

// like: names are bytes, and need not be UTF-8, which a regular expression wants.
func like(name, pattern string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	rest, ok := strings.CutPrefix(name, parts[0])
	if last == 0 {
		return ok && rest == ""
	}
	for _, part := range parts[1:last] {
		var found bool
		_, rest, found = strings.Cut(rest, part)
		ok = ok && found
	}
	return ok && strings.HasSuffix(rest, parts[last])
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

// arguments are those of a queue that drops nothing: a full one refuses.
func arguments() amqp091.Table {
	return amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": objects.NeverGivenUp, "x-overflow": "reject-publish"}
}

// deadLettering are those of one from which the broker moves messages to an exchange.
func deadLettering(exchange string) amqp091.Table {
	args := arguments()
	args["x-dead-letter-exchange"] = exchange
	args["x-dead-letter-strategy"] = "at-least-once"
	return args
}

// Side is all that an entry needs behind its exchange, but To. Processes that disagree about the
// destination are told apart by the marker. The Expiration of a message, which the plugin does not
// count, runs in the first queue: what expires comes back.
func (s Spec) Side(prefix string) topology.Plan {
	n, expired := NamesOf(prefix, s.Name), named(prefix, "expired", s.Name)
	intake, back := deadLettering(expired), deadLettering("")
	intake["x-max-length"] = objects.NeverFull
	back["x-dead-letter-routing-key"] = n.Parked // what cannot be published again
	p := topology.Plan{
		Markers:   []topology.Exchange{s.Marker(prefix)},
		Exchanges: []topology.Exchange{{Name: expired, Kind: amqp091.ExchangeFanout}},
		Queues: []topology.Queue{
			{Name: n.Queue, Args: intake},
			{Name: n.Back, Args: back},
			{Name: n.Parked, Args: arguments()},
		},
		Bindings: []topology.Binding{{Source: expired, Target: n.Back}},
	}
	if s.kind() == amqp091.ExchangeDirect {
		all := topology.Exchange{Name: named(prefix, "all", s.Name), Kind: amqp091.ExchangeFanout}
		p.Exchanges, p.Bindings = append(p.Exchanges, all), append(p.Bindings, topology.Binding{Source: all.Name, Target: n.Queue})
	}
	return p
}

// Marker says what an entry passes on, and where.
func (s Spec) Marker(prefix string) topology.Exchange {
	return topology.Exchange{
		Name: named(prefix, "entry", s.Name), Kind: amqp091.ExchangeFanout,
		Alternate: fmt.Sprintf("%s:serve,%s,to=%s", prefix, s.kind(), s.To),
	}
}

// Front is the exchange, and how all that is published to it gets to the first queue of Side. A
// direct exchange leads nowhere by itself: which keys there will be is not known. So what it cannot
// route takes its alternate exchange.
func (s Spec) Front(prefix string) topology.Plan {
	x, lead := topology.Exchange{Name: s.Name, Kind: s.kind()}, topology.Binding{Source: s.Name, Target: NamesOf(prefix, s.Name).Queue}
	switch x.Kind {
	case amqp091.ExchangeDirect:
		x.Alternate = named(prefix, "all", s.Name)
		return topology.Plan{Exchanges: []topology.Exchange{x}}
	case amqp091.ExchangeTopic:
		lead.Key = "#"
	}
	if s.proxied { // publishers are not told what is dropped here: it is kept
		x.Alternate = unroutable(prefix)
	}
	return topology.Plan{Exchanges: []topology.Exchange{x}, Bindings: []topology.Binding{lead}}
}

// Remove deletes what serving an exchange declares: its queues with their messages, the exchange,
// and To.
func Remove(ctx context.Context, control *broker.Control, prefix string, s Spec) error {
	p := s.Side(prefix).Add(s.Front(prefix))
	p.Exchanges = append(p.Exchanges, topology.Exchange{Name: s.To})
	return objects.Of(control, "").Remove(ctx, p)
}
