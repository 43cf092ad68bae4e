// Package guard finds policies of the broker that would make delayed messages early, or lose them.
// It says whether delayed messages may be published.
//
// There are four sources: probes that wait, a probe for alternate exchanges, a probe for overflow,
// and, if configured, the management API. Each finds a fault, finds nothing, or does not know. A
// fault stands until the source that found it finds nothing.
//
// Objects of a prefix, of which [Plan] lists the shared ones:
//
//	<prefix>.watch                  a direct exchange without alternate: unroutable messages must be returned
//	<prefix>.watch.full             a quorum queue for one message, which must refuse the next ones
//	<prefix>.watch.back             a direct exchange, to which probes are dead-lettered
//	<prefix>.watch.<id>.<n>         the probe queues of one Delayer
//	<prefix>.watch.<id>.back.<id>   its return queue
package guard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/observe"
)

// Config is what a Guard needs.
type Config struct {
	Backend   string
	Prefix    string
	QueueType delayer.QueueType
	Logger    *slog.Logger
	Every     time.Duration   // the pause between two looks, plus up to half of it at random; 0: 5 s
	Control   *broker.Control // the connection that declares the probe queues

	// Publish publishes a probe, mandatory and with a confirm, on a channel without other messages.
	// It returns the errors of [broker.Publisher.PublishDirect].
	Publish func(context.Context, broker.Publishing) error

	// Inspect asks the management API. It returns nil if no policy does harm, ErrConflict if one
	// does, and any other error if that is unknown. It is nil if no API is configured.
	Inspect func(context.Context) error

	Observer delayer.Observer // is told of faults
}

const (
	defaultEvery = 5 * time.Second
	firstTimeout = 5 * time.Second  // for the probes of Open: the broker may block publishers, and the next look is soon
	lookTimeout  = 30 * time.Second // for one look
)

// A Guard knows of policies. Open comes first, then Run; Fault may be called at any time.
type Guard struct {
	cfg       Config
	probes    probes
	forbidden bool // the user may not send probes

	mu       sync.Mutex
	verdicts verdicts
	fault    atomic.Pointer[delayer.Error]
}

// New returns a Guard that has not looked yet.
func New(cfg Config) *Guard {
	return newGuard(cfg, newQueues(cfg.Prefix, cfg.Control))
}

func newGuard(cfg Config, w wire) *Guard {
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
	return &Guard{cfg: cfg, probes: probes{
		Config: cfg, wire: w, waiting: waiting{every: cfg.Every}, epoch: time.Now(),
	}}
}

// Fault returns nil when delayed messages may be published. Otherwise it returns an error of kind
// ErrConflict that names the object and the key of the policy. All callers get the same error: copy
// it before you change it. A nil Guard knows of no fault.
func (g *Guard) Fault() *delayer.Error {
	if g == nil {
		return nil
	}
	return g.fault.Load()
}

// Open looks for what can be seen at once. Its error is ErrConflict for a policy that does harm, or
// what the management API fails with.
func (g *Guard) Open(ctx context.Context) error {
	probing, cancel := context.WithTimeout(ctx, firstTimeout)
	defer cancel()
	if err := g.ask(probing, alternateProbe, g.probes.alternate); errors.Is(err, delayer.ErrConflict) {
		return err
	}
	if err := g.ask(probing, overflowProbe, g.probes.overflow); errors.Is(err, delayer.ErrConflict) {
		return err
	}
	if g.cfg.Inspect == nil {
		return nil
	}
	return g.cfg.Inspect(ctx)
}

// Run looks for policies until ctx ends, as long as busy says so or a fault stands. Probes that
// come back early are noticed at any time. The management API is asked at a pace of its own, so
// that a slow one delays no probe: busy must be safe for concurrent use.
func (g *Guard) Run(ctx context.Context, busy func() bool) {
	defer func() { g.tell(g.Fault(), nil) }() // nobody asks any more
	var inspecting sync.WaitGroup
	defer inspecting.Wait()
	if g.cfg.Inspect != nil {
		nothing := func() <-chan amqp091.Delivery { return nil }
		inspecting.Go(func() { g.repeat(ctx, busy, nothing, g.inspect) })
	}
	g.repeat(ctx, busy, g.probes.returned, g.probe)
}

// repeat looks again and again, and takes the probes that come back meanwhile.
func (g *Guard) repeat(ctx context.Context, busy func() bool, returned func() <-chan amqp091.Delivery, look func(context.Context)) {
	pause := func() time.Duration { return g.cfg.Every + rand.N(g.cfg.Every/2) }
	next := time.NewTimer(pause())
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case d, ok := <-returned():
			if early := g.probes.receive(d, ok); early != nil {
				g.learn(waitingProbes, early)
			}
		case <-next.C:
			if busy() || g.Fault() != nil {
				within, cancel := context.WithTimeout(ctx, lookTimeout)
				look(within)
				cancel()
			}
			next.Reset(pause())
		}
	}
}

// inspect asks the management API.
func (g *Guard) inspect(ctx context.Context) { g.learn(managementAPI, g.cfg.Inspect(ctx)) }

// probe asks the other sources.
func (g *Guard) probe(ctx context.Context) {
	g.learn(waitingProbes, g.ask(ctx, waitingProbes, g.probes.wait))
	g.learn(alternateProbe, g.ask(ctx, alternateProbe, g.probes.alternate))
	g.learn(overflowProbe, g.ask(ctx, overflowProbe, g.probes.overflow))
}

// tell notes a change of the fault. An error that is a nil pointer would not be nil.
func (g *Guard) tell(was, now *delayer.Error) {
	event := delayer.PolicyFaultEvent{Backend: g.cfg.Backend}
	if was != nil {
		event.Was = was
	}
	if now != nil {
		event.Now = now
	}
	if was != now {
		observe.Tell(g.cfg.Observer.PolicyFault, event)
	}
}

// ask returns the answer of a source. If the user may not send probes it stops asking, because each
// attempt costs a channel, unless that source must lift its fault.
func (g *Guard) ask(ctx context.Context, from source, look func(context.Context) error) error {
	if g.forbidden && !g.accuses(from) {
		return errUndecided
	}
	err := look(ctx)
	if !g.forbidden && accessRefused(err, g.cfg.Prefix) {
		g.forbidden = true
		g.cfg.Logger.Warn("policies that make messages early are not looked for over AMQP: the user may not configure, "+
			"write and read names that begin with "+watchName(g.cfg.Prefix), "backend", g.cfg.Backend)
	}
	return err
}

// accuses reports whether a source knows of a fault.
func (g *Guard) accuses(s source) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.verdicts.faults[s] != nil
}

// learn takes the answer of a source, and logs where that changes what is reported.
func (g *Guard) learn(from source, answer error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.verdicts.fault()
	change := g.verdicts.learn(from, answer)
	fault := g.verdicts.fault()
	g.fault.Store(fault)
	if change != unchanged {
		g.tell(was, fault)
	}
	switch {
	case change == found:
		g.cfg.Logger.Error("delayed messages would be early or lost; none is published until this is fixed", "error", fault)
	case change == lifted:
		g.cfg.Logger.Info("the policy is gone; delayed messages are published again", "backend", g.cfg.Backend)
	case answer != nil && !errors.Is(answer, delayer.ErrConflict) && !errors.Is(answer, errUndecided):
		g.cfg.Logger.Debug("cannot look for policies", "backend", g.cfg.Backend, "error", answer)
	}
}
