// Package ttl is what a ladder and tiers have in common. Messages wait in queues that each have one
// TTL, and the keys that they carry lead them there, from one queue to the next, and on. A tier is
// a plan of one step.
package ttl

import (
	"context"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/topicladder"
	"github.com/delayer-go/delayer/topology"
)

// LongestStep is how long messages may wait in one queue: a quorum queue gets a millisecond more.
const LongestStep = objects.MaxTTL - time.Millisecond

// Queues are the waiting queues of a Delayer, and how messages come to them.
type Queues struct {
	Backend string
	Stage   delivery.Stage
	Plan    topology.Plan // declared at Open: everything but the links
	Limits  delayer.Limits
	Steps   Steps
	Enter   string                     // the exchange that messages are published to
	Queue   func(time.Duration) string // the queue of a step
	// Exchange is where the queue of a step dead-letters to, if the message's keys say where it
	// goes from there. Nil: they only say which queue is the first.
	Exchange func(time.Duration) string
	// Topic, if not nil, gives each message another key, which topic exchanges decide by.
	Topic *topicladder.Ladder
}

// Guarantees returns the Limits that depend on the type of the queues alone.
func Guarantees(kind delayer.QueueType) delayer.Limits {
	quorum := kind == delayer.Quorum
	return delayer.Limits{
		SurvivesRestart: quorum,
		SurvivesCrash:   quorum,
		Replicated:      quorum,
		Ordered:         true,
		ExactTopics:     true,
		MaxPriority:     engine.AnyPriority,
	}
}

// Open connects, declares the queues and returns a Delayer. ctx bounds the opening only.
func (q Queues) Open(ctx context.Context, s engine.Settings) (delayer.Delayer, error) {
	c, err := engine.Connect(ctx, s)
	if err != nil {
		return nil, err
	}
	q.Limits.MaxPriority = c.MaxPriority()
	return engine.Opened(c.Start(ctx, newStrategy(q, c.Declare)))
}

// Whole returns what Open declares; with passive: true also all links, which are otherwise
// declared when they are first used.
func (q Queues) Whole(s engine.Settings) topology.Plan {
	own := q.Plan
	if !s.Passive {
		return own
	}
	var links topology.Plan
	for _, k := range q.all() {
		for _, words := range keeper.ImportedWords {
			links.Bindings = append(links.Bindings, q.binding(k, words))
		}
	}
	return own.Add(links)
}

// Optional marks the exchanges and queues of a plan that Open does not declare, for publishers that
// have no Delayer.
func Optional(p topology.Plan) topology.Plan {
	for i := range p.Exchanges {
		p.Exchanges[i].Optional = true
	}
	for i := range p.Queues {
		p.Queues[i].Optional = true
	}
	return p
}

func (q Queues) all() []link {
	var all []link
	for step := range int16(len(q.Steps.Waits)) { //nolint:gosec // at most mostSteps
		all = append(all, link{outside, step})
		all = append(all, q.leaving(step)...)
	}
	return all
}

// leaving lists the links that lead on from a step: a plan descends.
func (q Queues) leaving(step int16) []link {
	if q.Exchange == nil {
		return nil
	}
	out := []link{{step, outside}}
	for to := range step {
		out = append(out, link{step, to})
	}
	return out
}

// key is the routing key of a link. It names both ends: a message carries the keys of its whole
// route to every exchange, and each exchange must match its own only. So each step also has an
// exchange of its own.
func (q Queues) key(k link, words int) string {
	from, to := "", "end"
	if k.from != outside {
		from = objects.DurationName(q.Steps.Waits[k.from])
	}
	if k.to != outside {
		to = objects.DurationName(q.Steps.Waits[k.to])
	}
	return message.Pad(message.Reserved+":"+from+">"+to, words)
}

// binding is what a link is.
func (q Queues) binding(k link, words int) topology.Binding {
	binding := topology.Binding{Source: q.Enter, Key: q.key(k, words), Target: q.Stage.Exchange(), ToExchange: true}
	if k.from != outside {
		binding.Source = q.Exchange(q.Steps.Waits[k.from])
	}
	if k.to != outside {
		binding.Target, binding.ToExchange = q.Queue(q.Steps.Waits[k.to]), false
	}
	return binding
}

func (s *strategy) Limits() delayer.Limits { return s.queues.Limits }
func (s *strategy) Plan() topology.Plan    { return s.queues.Plan }

func (s *strategy) Growth() message.Growth {
	q := s.queues
	hops := q.Steps.Hops(q.Limits.Max)
	g := message.Growth{Hops: hops, Keys: 1}
	step := 0 // the longest name of one
	for i, wait := range q.Steps.Waits {
		step = max(step, len(objects.DurationName(wait)))
		g.KeySize = max(g.KeySize, len(q.key(link{outside, int16(i)}, 1))) //nolint:gosec // at most mostSteps
		g.NameSize = max(g.NameSize, len(q.Queue(wait)))
	}
	switch {
	case q.Exchange != nil:
		g.Keys, g.KeySize = g.Keys+hops, len(q.key(link{outside, outside}, 1))+2*step
	case q.Topic != nil:
		const hash = 22
		g.Keys, g.KeySize = g.Keys+1, len(q.Topic.Key(0, ""))+hash
	}
	return g
}

func (s *strategy) Leaving(queue string, words int) topology.Plan {
	var p topology.Plan
	for i, wait := range s.queues.Steps.Waits {
		if queue != s.queues.Queue(wait) {
			continue
		}
		for _, k := range s.queues.leaving(int16(i)) { //nolint:gosec // at most mostSteps
			p.Bindings = append(p.Bindings, s.queues.binding(k, words))
		}
	}
	return p
}

func (s *strategy) Enter(ctx context.Context, m engine.Wait) (engine.Entry, error) {
	const most = 32 // of nearly all plans: these are kept on the stack
	var steps [most]int16
	var links [most + 1]link
	q := &s.queues
	route, from := links[:0], int16(outside)
	for _, step := range q.Steps.Plan(steps[:0], m.Delay) {
		if from == outside || q.Exchange != nil {
			route = append(route, link{from, step})
		}
		from = step
	}
	if q.Exchange != nil {
		route = append(route, link{from, outside})
	}
	const topicKey = 1
	keys, err := s.keys(ctx, route, m.Words, topicKey+len(m.Destinations))
	if err != nil {
		return engine.Entry{}, err
	}
	if q.Topic != nil {
		_, hash, _ := strings.Cut(m.Destinations[0].(string), "=")
		keys = append(keys, q.Topic.Key(q.Steps.Ticks(m.Delay), strings.TrimRight(hash, "."))) // without the padding
	}
	return engine.Entry{Exchange: q.Enter, Keys: append(keys, m.Destinations...)}, nil
}
