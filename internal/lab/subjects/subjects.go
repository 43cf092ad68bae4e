// Package subjects completes the lists of configurations that tests, fault campaigns and benchmarks
// try, so that a new backend is in all of them.
package subjects

import (
	"cmp"
	"slices"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/topology"
)

// A Subject is a configuration to be tried, without URL and prefix.
type Subject struct {
	Name   string // "fifth/quorum"
	Config backend.Config
}

// Others returns each backend that none of the listed configurations is of, with its defaults and
// each queue type that it takes. A backend whose messages wait in an exchange is there once.
func Others(listed ...backend.Config) []Subject {
	var others []Subject
	for _, name := range backend.Names() {
		if slices.ContainsFunc(listed, func(c backend.Config) bool { return cmp.Or(c.Backend, backend.Default().Backend) == name }) {
			continue
		}
		for _, kind := range []delayer.QueueType{delayer.Quorum, delayer.Classic} {
			cfg := backend.Config{Backend: name, Options: delayer.Options{QueueType: kind}}
			if InExchange(cfg) {
				others = append(others, Subject{name, cfg})
				break
			}
			if _, err := backend.Limits(cfg); err == nil {
				others = append(others, Subject{name + "/" + string(kind), cfg})
			}
		}
	}
	return others
}

// Hides reports whether messages wait in queues that hide them, as RabbitMQ does from 4.4 on.
func Hides(cfg backend.Config) bool {
	p, _ := backend.Topology(cfg)
	return slices.ContainsFunc(p.Queues, func(q topology.Queue) bool { return q.Role == "hidden" })
}

// InExchange reports whether messages wait in an exchange: the queue type makes no difference.
func InExchange(cfg backend.Config) bool {
	p, _ := backend.Topology(cfg)
	return slices.ContainsFunc(p.Exchanges, func(x topology.Exchange) bool { return x.DelayedKind != "" })
}
