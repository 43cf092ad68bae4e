package main

import (
	"fmt"
	"slices"
	"strings"
)

// A target is a broker that the suites run on.
type target struct {
	name   string // as the tables have it
	series string
	conf   string // settings of the broker
}

// officialImage is the image of a series, unless -image says otherwise.
const officialImage = "rabbitmq:" + seriesMark

// seriesMark stands for the series in the name of an image.
const seriesMark = "{series}"

// image is the name of the target's image.
func (t target) image(pattern string) string {
	return strings.ReplaceAll(pattern, seriesMark, t.series)
}

func (t target) label() string { return t.name }

// denied are the deprecated features that RabbitMQ 4.3 still permits by default; it denies the
// others by itself (rabbitmqctl list_deprecated_features).
const denied = "deprecated_features.permit.management_metrics_collection = false\n" +
	"deprecated_features.permit.transient_nonexcl_queues = false"

var targets = []target{
	{name: "3.10", series: "3.10"},
	{name: "3.13", series: "3.13"},
	{name: "4.0", series: "4.0"},
	{name: "4.2", series: "4.2"},
	{name: "4.3", series: "4.3"},
	{name: "4.3 strict", series: "4.3", conf: denied},
}

// A suite is a set of tests.
type suite struct {
	name string
	pkg  string
	run  string // as go test -run takes it
}

func (s suite) label() string { return s.name }

var suites = []suite{
	{"conformance", "./internal/tests/conformance", "^TestConformance$"},
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
