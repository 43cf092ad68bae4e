package main

import (
	"fmt"
	"slices"
	"strings"
)

// A lane is a broker that the suites run on.
type lane struct {
	name  string // as the tables have it
	image string
	conf  string // settings of the broker
}

func (l lane) label() string { return l.name }

// denied are the deprecated features that RabbitMQ 4.3 still permits by default; it denies the others by itself
// (rabbitmqctl list_deprecated_features).
const denied = "deprecated_features.permit.management_metrics_collection = false\n" +
	"deprecated_features.permit.transient_nonexcl_queues = false"

var lanes = []lane{
	{name: "3.10", image: "rabbitmq:3.10"},
	{name: "3.13", image: "rabbitmq:3.13"},
	{name: "4.0", image: "rabbitmq:4.0"},
	{name: "4.2", image: "rabbitmq:4.2"},
	{name: "4.3", image: "rabbitmq:4.3"},
	{name: "4.3 strict", image: "rabbitmq:4.3", conf: denied},
}

// A suite is a set of tests.
type suite struct {
	name string
	pkg  string
	run  string // as go test -run takes it
}

func (s suite) label() string { return s.name }

var suites = []suite{
	{"conformance", "./backend/lanes", "^TestConformance$"},
	{"faults", "./internal/faults", "^TestFaults"},
}

func names[L interface{ label() string }](all []L) []string {
	out := make([]string, len(all))
	for i, l := range all {
		out[i] = l.label()
	}
	return out
}

// choose returns those that list names, in their own order; all if it names none.
func choose[L interface{ label() string }](what, list string, all []L) ([]L, error) {
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	for i, w := range wanted {
		wanted[i] = strings.TrimSpace(w)
		if !slices.Contains(names(all), wanted[i]) {
			return nil, fmt.Errorf("-%s: there is no %q (known: %s)", what, wanted[i], strings.Join(names(all), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(l L) bool { return !slices.Contains(wanted, l.label()) }), nil
}
