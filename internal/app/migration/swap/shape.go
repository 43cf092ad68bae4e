// Package swap lets an exchange change hands: from the plugin to an ordinary exchange or to a
// bridge, and back. Its bindings are carried over. What waits in the plugin is delivered to the new
// exchange, because the plugin looks its exchange up by name.
//
// A swap that was killed is finished, or undone, from its record.
package swap

import (
	"encoding/json"
	"maps"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
)

// Shape is what an exchange is made into.
type Shape string

// The shapes.
const (
	Plain   Shape = "plain"   // an ordinary exchange with the former bindings
	Front   Shape = "front"   // leads to the bridge's queue
	Delayed Shape = "delayed" // the plugin's again
)

// shaped returns the exchange of a shape, without its bindings. former is the plugin's.
func shaped(former inventory.Exchange, to Shape) inventory.Exchange {
	x := former
	x.Policy = ""
	switch to {
	case Delayed:
		return x
	case Front:
		// The plugin routes what is due by the former type. RabbitMQ looks up bindings of a topic and of
		// a direct exchange in tables that hold no others.
		x.Type = amqp091.ExchangeFanout
		if kind := former.DelayedType(); kind == amqp091.ExchangeTopic || kind == amqp091.ExchangeDirect {
			x.Type = kind
		}
	case Plain:
		x.Type = former.DelayedType()
	}
	x.Arguments = maps.Clone(former.Arguments)
	delete(x.Arguments, delayedType)
	if to == Front {
		x.Arguments[frontMark] = true
	}
	return x
}

const (
	delayedType = "x-delayed-type"
	// frontMark is an argument that tells a front from an ordinary exchange of the same type.
	frontMark = "x-delayer-front"
)

// behind is the exchange that has the former bindings. It keeps the alternate exchange too: a
// message that reaches it has been routed, as far as the exchange before it knows.
func behind(prefix string, former inventory.Definition) inventory.Definition {
	x := shaped(former.Exchange, Plain)
	x.Name, x.Durable, x.AutoDelete, x.Internal = record.Behind(prefix, former.Name), true, false, false
	d := inventory.Definition{Exchange: x}
	for _, b := range former.Out {
		b.Source = x.Name
		d.Out = append(d.Out, b)
	}
	return d
}

// bridgeBindings lead from the front to the bridge's queue: what is published from now on, and what
// the plugin delivers.
func bridgeBindings(prefix string, former inventory.Definition) []inventory.BindingInfo {
	to := inventory.BindingInfo{Source: former.Name, Target: record.Bridge(prefix, former.Name)}
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
func own(d inventory.Definition, prefix string) inventory.Definition {
	ours := []string{record.Behind(prefix, d.Name), record.Bridge(prefix, d.Name), record.Hold(prefix, d.Name)}
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
