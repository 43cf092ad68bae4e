package conformance_test

import (
	"reflect"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// An exchange routes by its kind.
type exchange struct {
	kind     string
	bindings []binding
}

type binding struct {
	queue, key string
	args       amqp091.Table
}

func (b binding) equal(o binding) bool {
	return b.queue == o.queue && b.key == o.key && reflect.DeepEqual(b.args, o.args)
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
