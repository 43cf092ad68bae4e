package binaryladder

import (
	"context"

	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// A link is one part of a route: from a step's exchange to a queue. From outside leads into the
// ladder, to outside leads out of it.
type link struct{ from, to int16 }

// route returns the links of a plan: into the ladder, from step to step, and out.
func route(dst []link, plan []int16) []link {
	from := int16(outside)
	for _, step := range plan {
		dst = append(dst, link{from, step})
		from = step
	}
	return append(dst, link{from, outside})
}

// newLinks are the links of a ladder, none of them declared.
func newLinks(b blueprint, declare func(context.Context, topology.Plan) error) *keeper.Links[link] {
	side := len(b.ladder.steps) + 1
	return keeper.NewLinks(keeper.LinkSpec[link]{
		Backend: Name, Count: side * side, Declare: declare, Key: b.key, Needs: b.needs,
		Index: func(k link) int { return int(k.from+1)*side + int(k.to+1) },
	})
}

// links lists every possible link.
func (b blueprint) links() []link {
	var all []link
	for from := range int16(len(b.ladder.steps)) { //nolint:gosec // at most mostSteps and calendar
		all = append(all, link{outside, from})
		if b.routing == Source {
			all = append(all, b.from(from)...)
		}
	}
	return all
}

// from lists the links that lead on from a step: a plan descends.
func (b blueprint) from(step int16) []link {
	out := []link{{step, outside}}
	for to := range step {
		out = append(out, link{step, to})
	}
	return out
}

// leaving returns the links that lead on from a waiting queue, for keys of so many words. The topic
// ladder has them in its plan.
func (b blueprint) leaving(queue string, words int) topology.Plan {
	var p topology.Plan
	for i, step := range b.ladder.steps {
		if b.routing != Source || queue != b.names.queue(step) {
			continue
		}
		for _, k := range b.from(int16(i)) { //nolint:gosec // at most mostSteps and calendar
			p = p.Add(b.needs(k, words))
		}
	}
	return p
}

// key is the routing key of a link. It names both ends: a message carries the keys of its whole
// route to every exchange, and each exchange must match its own only. So each step also has an
// exchange of its own.
func (b blueprint) key(k link, words int) string {
	from, to := "", "end"
	if k.from != outside {
		from = objects.DurationName(b.ladder.steps[k.from])
	}
	if k.to != outside {
		to = objects.DurationName(b.ladder.steps[k.to])
	}
	return message.Pad(message.Reserved+":"+from+">"+to, words)
}

// needs is the binding that a link is.
func (b blueprint) needs(k link, words int) topology.Plan {
	binding := topology.Binding{Source: b.names.enter(), Key: b.key(k, words), Target: b.stage.Exchange(), ToExchange: true}
	if k.from != outside {
		binding.Source = b.names.exchange(b.ladder.steps[k.from])
	}
	if k.to != outside {
		binding.Target, binding.ToExchange = b.names.queue(b.ladder.steps[k.to]), false
	}
	return topology.Plan{Bindings: []topology.Binding{binding}}
}
