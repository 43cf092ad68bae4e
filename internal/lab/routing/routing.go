// Package routing is the part of a broker that leads messages to queues: exchanges, bindings, CC
// and BCC, in memory.
package routing

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Table holds exchanges, and queues of any kind. It is not safe for concurrent use.
type Table[Q any] struct {
	Queues    map[string]Q
	exchanges map[string]*exchange
}

// New returns an empty table.
func New[Q any]() Table[Q] { return Table[Q]{map[string]Q{}, map[string]*exchange{}} }

// An exchange routes by its kind.
type exchange struct {
	kind     string
	bindings []binding
}

type binding struct {
	queue, key string
	args       amqp091.Table
}

var errAbsent = errors.New("no such queue or exchange")

// DeleteQueue deletes a queue and its bindings.
func (t Table[Q]) DeleteQueue(name string) {
	delete(t.Queues, name)
	for _, e := range t.exchanges {
		e.bindings = slices.DeleteFunc(e.bindings, func(b binding) bool { return b.queue == name })
	}
}

// DeclareExchange declares an exchange: direct, topic, fanout or headers.
func (t Table[Q]) DeclareExchange(name, kind string) {
	if t.exchanges[name] == nil {
		t.exchanges[name] = &exchange{kind: kind}
	}
}

// DeleteExchange deletes an exchange.
func (t Table[Q]) DeleteExchange(name string) { delete(t.exchanges, name) }

// Bind binds a queue to an exchange.
func (t Table[Q]) Bind(queue, key, exchange string, args amqp091.Table) error {
	e := t.exchanges[exchange]
	if _, is := t.Queues[queue]; !is || e == nil {
		return errAbsent
	}
	e.bindings = append(e.bindings, binding{queue, key, args})
	return nil
}

// Unbind ends a binding.
func (t Table[Q]) Unbind(queue, key, exchange string, args amqp091.Table) error {
	e := t.exchanges[exchange]
	if e == nil {
		return errAbsent
	}
	e.bindings = slices.DeleteFunc(e.bindings, func(b binding) bool { return reflect.DeepEqual(b, binding{queue, key, args}) })
	return nil
}

// Exists reports whether a destination is there: an exchange, or with the default exchange a queue.
func (t Table[Q]) Exists(exchange, key string) bool {
	if exchange == "" {
		_, is := t.Queues[key]
		return is
	}
	return t.exchanges[exchange] != nil
}

// Reached returns the queues that a message is routed to, by its key and those of CC and BCC.
func (t Table[Q]) Reached(exchange, key string, headers amqp091.Table) []Q {
	keys := []string{key}
	for _, name := range []string{"CC", "BCC"} {
		list, _ := headers[name].([]any)
		for _, k := range list {
			keys = append(keys, k.(string))
		}
	}
	reached := map[string]bool{}
	for _, k := range keys {
		if e := t.exchanges[exchange]; e != nil {
			e.match(k, headers, reached)
		} else if exchange == "" {
			reached[k] = true
		}
	}
	var queues []Q
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		if q, is := t.Queues[name]; is {
			queues = append(queues, q)
		}
	}
	return queues
}

// match adds the queues that a key and headers lead to.
func (e *exchange) match(key string, headers amqp091.Table, reached map[string]bool) {
	for _, b := range e.bindings {
		var ok bool
		switch e.kind {
		case "direct":
			ok = b.key == key
		case "fanout":
			ok = true
		case "topic":
			ok = topicMatch(words(b.key), words(key))
		case "headers":
			ok = headersMatch(b.args, headers)
		}
		if ok {
			reached[b.queue] = true
		}
	}
}

// words splits a key; the empty one has none.
func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// topicMatch: * is one word, # any number of them.
func topicMatch(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return topicMatch(pattern[1:], key) || len(key) > 0 && topicMatch(pattern, key[1:])
	case len(key) == 0:
		return false
	default:
		return (pattern[0] == "*" || pattern[0] == key[0]) && topicMatch(pattern[1:], key[1:])
	}
}

// headersMatch compares all arguments, or any, as x-match says.
func headersMatch(args, headers amqp091.Table) bool {
	matched, wanted := 0, 0
	for name, value := range args {
		if strings.HasPrefix(name, "x-") {
			continue
		}
		wanted++
		if reflect.DeepEqual(headers[name], value) {
			matched++
		}
	}
	if args["x-match"] == "any" {
		return matched > 0
	}
	return matched == wanted
}
