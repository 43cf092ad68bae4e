package conformance_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A table leads messages to queues, by exchanges, bindings, CC and BCC. It is not safe for concurrent
// use.
type table struct {
	queues    map[string]*queue
	exchanges map[string]*exchange
}

type exchange struct {
	kind     string
	bindings []binding
}

type binding struct {
	queue, key string
	args       amqp091.Table
}

var errAbsent = errors.New("no such queue or exchange")

func (t table) deleteQueue(name string) {
	delete(t.queues, name)
	for _, e := range t.exchanges {
		e.bindings = slices.DeleteFunc(e.bindings, func(b binding) bool { return b.queue == name })
	}
}

func (t table) declareExchange(name, kind string) {
	if t.exchanges[name] == nil {
		t.exchanges[name] = &exchange{kind: kind}
	}
}

func (t table) deleteExchange(name string) { delete(t.exchanges, name) }

func (t table) bind(queue, key, exchange string, args amqp091.Table) error {
	e := t.exchanges[exchange]
	if _, is := t.queues[queue]; !is || e == nil {
		return errAbsent
	}
	e.bindings = append(e.bindings, binding{queue, key, args})
	return nil
}

func (t table) unbind(queue, key, exchange string, args amqp091.Table) error {
	e := t.exchanges[exchange]
	if e == nil {
		return errAbsent
	}
	e.bindings = slices.DeleteFunc(e.bindings, func(b binding) bool { return reflect.DeepEqual(b, binding{queue, key, args}) })
	return nil
}

// exists reports whether a destination is there: an exchange, or with the default exchange a queue.
func (t table) exists(exchange, key string) bool {
	if exchange == "" {
		_, is := t.queues[key]
		return is
	}
	return t.exchanges[exchange] != nil
}

// reached returns the queues that a message is routed to, by its key and those of CC and BCC.
func (t table) reached(exchange, key string, headers amqp091.Table) []*queue {
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
	var queues []*queue
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		if q, is := t.queues[name]; is {
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
