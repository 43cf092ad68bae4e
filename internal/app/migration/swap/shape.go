// Package swap lets an exchange change hands: from the plugin to an ordinary exchange or to delayer
// serve, and back. Its bindings are carried over. What waits in the plugin is delivered to the new
// exchange, because the plugin looks its exchange up by name.
//
// # States
//
// They are those of the record. A step that was killed is finished by the same command, or undone
// by a rollback.
//
//	            ┌─ switch in place ─→ switched ─┬─ retire ─→ (no record)
//	prepared ───┤                               └─ rollback ─→ prepared
//	            └─ switch to serve ─→ switched ─┬─ retire ─→ (no record; what serve needs stays)
//	                                            └─ rollback ─→ restored ─ rollback again ─→ prepared
//
// From one way to the other leads a rollback alone. A restored exchange may be switched to serve
// again; in place, once what serve needed is removed.
//
// # Delayer serve
//
//	before   publishers ─→ exchange (plugin) ─→ queues
//	after    publishers ─→ exchange ─→ serve's queue ─→ serve ─→ (Delayer) ─→ target ─→ queues
//
// The exchange becomes what serve declares for the entry that [record.Record.Spec] describes:
// durable, of the type by which it routed, leading to serve's queue. The target gets its bindings,
// its flags aside.
//
//   - All that is published is in exactly one of three places: the plugin's table, the queues of
//     serve and the Delayer, or the queues of consumers. On the node what routes from now on is
//     added before what routed is removed. So nothing is lost, and what is routed in between may
//     come twice.
//   - Nobody gets a message early: the exchange is an ordinary one only once nothing but serve's
//     queue is bound to it. Who binds to it later is moved to the target: by a switch that is
//     repeated, and by serve (package rebind).
//   - Nothing depends on whether serve runs. It may be configured before the switch: it then finds
//     the plugin's exchange, leaves it as it is and waits at its queue. After the switch messages
//     wait there until it runs. Its marker is declared by whoever comes first, so that both agree
//     on the target.
//   - A rollback leads the exchange to its queues again. What serve and the Delayer hold still goes
//     to the target, whose bindings stay. They are removed by a second rollback, once serve does
//     not read its queues any more, they are empty, and the Delayer holds nothing that only they
//     could deliver.
package swap

import (
	"encoding/json"
	"maps"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
)

// Shape is what an exchange is made into.
type Shape string

// The shapes.
const (
	Plain   Shape = "plain"   // an ordinary exchange with the former bindings
	Front   Shape = "front"   // leads to the queue of delayer serve
	Delayed Shape = "delayed" // the plugin's again
)

// shaped returns the exchange of a shape, without its bindings. former is the plugin's.
func shaped(prefix string, former inventory.Exchange, to Shape) inventory.Exchange {
	x := former
	x.Policy = ""
	if to == Delayed {
		return x
	}
	x.Type, x.Arguments = former.DelayedType(), maps.Clone(former.Arguments)
	delete(x.Arguments, delayedType)
	if to == Front { // as serve declares it
		front := record.Record{Former: inventory.Definition{Exchange: former}}.Spec().Front(prefix).Exchanges[0]
		x.Type, x.Durable, x.AutoDelete, x.Internal = front.Kind, true, false, false
		delete(x.Arguments, alternate)
		maps.Copy(x.Arguments, front.Args())
	}
	return x
}

const (
	delayedType = "x-delayed-type"
	alternate   = "alternate-exchange"
)

// behind is the exchange that has the former bindings. It keeps the alternate exchange too: a
// message that reaches it has been routed, as far as the exchange before it knows.
func (st state) behind(prefix string) inventory.Definition {
	former := st.former
	x := shaped(prefix, former.Exchange, Plain)
	x.Name, x.Durable, x.AutoDelete, x.Internal = st.behindName(prefix), true, false, false
	d := inventory.Definition{Exchange: x}
	for _, b := range former.Out {
		b.Source = x.Name
		d.Out = append(d.Out, b)
	}
	return d
}

// leads are the bindings from the front to serve's queue: for what is published from now on, and
// for what the plugin delivers, which routes by the former type and knows no new alternate
// exchange.
func leads(prefix string, former inventory.Definition) []inventory.BindingInfo {
	to := inventory.BindingInfo{Source: former.Name, Target: entry.NamesOf(prefix, former.Name).Queue}
	switch former.DelayedType() {
	case amqp091.ExchangeTopic:
		to.Key = "#"
	case amqp091.ExchangeDirect:
		return perKey(former, to)
	}
	return []inventory.BindingInfo{to}
}

// connectors lead from an exchange to the one behind it, such that whatever the bindings there
// would route goes there. There are none for a type that we do not know.
func connectors(former inventory.Definition, behind string) []inventory.BindingInfo {
	to := inventory.BindingInfo{Source: former.Name, Target: behind, ToExchange: true}
	switch former.DelayedType() {
	case amqp091.ExchangeTopic:
		to.Key = "#"
	case amqp091.ExchangeFanout, amqp091.ExchangeHeaders: // no arguments match all headers
	case amqp091.ExchangeDirect:
		return perKey(former, to)
	default:
		return nil
	}
	if len(former.Out) == 0 {
		return nil
	}
	return []inventory.BindingInfo{to}
}

func perKey(former inventory.Definition, to inventory.BindingInfo) []inventory.BindingInfo {
	seen := map[string]bool{}
	var all []inventory.BindingInfo
	for _, b := range former.Out {
		if !seen[b.Key] {
			seen[b.Key], to.Key = true, b.Key
			all = append(all, to)
		}
	}
	return all
}

// own removes the bindings that are ours from a definition, and those to itself from Out: they are
// in In, and an exchange behind would lead back with them.
func own(d inventory.Definition, prefix, behind string) inventory.Definition {
	ours := []string{behind, entry.NamesOf(prefix, d.Name).Queue, record.Hold(prefix, d.Name)}
	d.Out = slices.DeleteFunc(slices.Clone(d.Out), func(b inventory.BindingInfo) bool {
		return slices.Contains(ours, b.Target) || b.ToExchange && b.Target == d.Name
	})
	return d
}

// identity tells bindings apart as the broker does.
func identity(b inventory.BindingInfo) string {
	arguments, err := json.Marshal(messagejson.Headers(b.Arguments))
	if err != nil || len(b.Arguments) == 0 {
		arguments = nil // an API's answer has no types that JSON lacks
	}
	text, _ := json.Marshal([]string{b.Source, b.Kind(), b.Target, b.Key, string(arguments)})
	return string(text)
}

func union(some, others []inventory.BindingInfo) []inventory.BindingInfo {
	return append(slices.Clone(some), missing(others, some)...)
}

// missing returns the bindings of want that have does not hold, each once.
func missing(want, have []inventory.BindingInfo) []inventory.BindingInfo {
	seen := map[string]bool{}
	for _, b := range have {
		seen[identity(b)] = true
	}
	var out []inventory.BindingInfo
	for _, b := range want {
		if id := identity(b); !seen[id] {
			seen[id] = true
			out = append(out, b)
		}
	}
	return out
}

// sameExchange reports whether an exchange need not be declared again.
func sameExchange(a, b inventory.Exchange) bool {
	return a.Type == b.Type && a.Durable == b.Durable && a.AutoDelete == b.AutoDelete && a.Internal == b.Internal &&
		identity(inventory.BindingInfo{Arguments: a.Arguments}) == identity(inventory.BindingInfo{Arguments: b.Arguments})
}
