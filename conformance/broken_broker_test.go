package conformance_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/conformance"
)

// A brokerFault is a fault behind a Delayer, where a wrapper around it cannot reach.
type brokerFault struct {
	name  string
	cases []string
	does  func(*delayer.Limits)                                  // the limits that it really has
	world func(b *broker, w conformance.World) conformance.World // wraps the World
	stall bool
}

var whileWaiting = []string{"destination-deleted-while-waiting", "exchange-deleted-while-waiting"}

var brokerFaults = []brokerFault{
	{name: "stalls behind the unroutable", stall: true, cases: append([]string{"binding-gone-while-waiting"}, whileWaiting...)},
	{name: "drops the unroutable", cases: whileWaiting, does: func(l *delayer.Limits) { l.KeepsUnroutable = false }},
	{name: "does not report the unroutable", cases: []string{"unknown-destination", "zero-delay"},
		does: func(l *delayer.Limits) { l.ReportsUnroutable = false }},
	{name: "takes longer than it says", cases: []string{"beyond-maximum"}, does: func(l *delayer.Limits) { l.Max *= 2 }},
	{name: "refuses priorities", cases: []string{"properties", "priorities-do-not-block"},
		does: func(l *delayer.Limits) { l.MaxPriority = 4 }},
	{name: "finer than it says", cases: []string{"rounding-up"}, does: func(l *delayer.Limits) { l.Resolution = time.Millisecond }},
	{name: "loses what waits in a restart", cases: []string{"broker-restart"},
		world: func(b *broker, w conformance.World) conformance.World { return disturbed{w, b.forget} }},
	{name: "delivers all in a restart", cases: []string{"broker-restart"},
		world: func(b *broker, w conformance.World) conformance.World { return disturbed{w, b.hasten} }},
	{name: "loses what waits with an exchange of its own", cases: []string{"own-exchange-deleted"},
		world: func(b *broker, w conformance.World) conformance.World { return disturbed{w, b.forget} }},
	{name: "carries no header of ours", cases: []string{"due-header"},
		world: func(_ *broker, w conformance.World) conformance.World { return headless{w} }},
	{name: "keeps the unroutable without destination", cases: whileWaiting,
		world: func(_ *broker, w conformance.World) conformance.World { return headless{w} }},
}

// disturbed does something to a broker that is about to restart, or to lose an exchange of the
// Delayers'.
type disturbed struct {
	conformance.World
	do func()
}

func (d disturbed) Restart(ctx context.Context) error {
	d.do()
	return d.World.Restart(ctx)
}

func (d disturbed) DeleteOwnExchange(ctx context.Context) error {
	d.do()
	return d.World.DeleteOwnExchange(ctx)
}

// headless removes delayer.Header from messages that arrive.
type headless struct{ conformance.World }

func without(arrived func(conformance.Arrival)) func(conformance.Arrival) {
	return func(a conformance.Arrival) {
		delete(a.Headers, delayer.Header)
		arrived(a)
	}
}

func (h headless) Consume(ctx context.Context, queue string, arrived func(conformance.Arrival)) error {
	return h.World.Consume(ctx, queue, without(arrived))
}

func (h headless) Unroutable(ctx context.Context, arrived func(conformance.Arrival)) error {
	return h.World.Unroutable(ctx, without(arrived))
}

// declaring says of itself what is not so.
type declaring struct {
	delayer.Delayer
	limits delayer.Limits
}

func (d declaring) Limits() delayer.Limits { return d.limits }

func TestBrokenBroker(t *testing.T) {
	for _, f := range brokerFaults {
		t.Run(f.name, func(t *testing.T) { synctest.Test(t, f.test) })
	}
	t.Run("takes any delay for a tier", func(t *testing.T) { synctest.Test(t, exactTiersFault) })
}

func (f brokerFault) test(t *testing.T) {
	limits := idealLimits()
	if f.does != nil {
		f.does(&limits)
	}
	b := newBroker(limits)
	b.stalls = f.stall
	h := falsely(harness(b), idealLimits())
	if open := h.World; f.world != nil {
		h.World = func(ctx context.Context) (conformance.World, error) {
			w, err := open(ctx)
			return f.world(b, w), err
		}
	}
	notices(t, h, f.cases)
}

// falsely makes the Delayers of a harness declare other limits.
func falsely(h conformance.Harness, limits delayer.Limits) conformance.Harness {
	open := h.Open
	h.Open = func(ctx context.Context) (delayer.Delayer, error) {
		d, err := open(ctx)
		return declaring{d, limits}, err
	}
	return h
}

func exactTiersFault(t *testing.T) {
	limits := idealLimits()
	limits.Tiers, limits.Max = []time.Duration{time.Second, time.Minute}, time.Minute
	declared := limits
	declared.ExactTiers = true
	notices(t, falsely(harness(newBroker(limits)), declared), []string{"exact-tiers"})
}
