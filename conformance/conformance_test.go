package conformance_test

import (
	"context"
	"math"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/conformance"
)

func harness(b *broker) conformance.Harness {
	return conformance.Harness{Open: b.open, World: b.world, User: "guest"}
}

// TestCorrect runs the suite on correct Delayers with all kinds of limits. In a bubble, delays of
// hours cost nothing.
func TestCorrect(t *testing.T) {
	change := func(f func(*delayer.Limits)) delayer.Limits {
		l := idealLimits()
		f(&l)
		return l
	}
	tiers := []time.Duration{time.Second, 5 * time.Second, time.Minute}
	for name, limits := range map[string]delayer.Limits{
		"as good as can be":  idealLimits(),
		"to the millisecond": change(func(l *delayer.Limits) { l.Resolution = time.Millisecond }),
		"ticks of a second":  change(func(l *delayer.Limits) { l.Resolution = time.Second }),
		"ticks of a minute":  change(func(l *delayer.Limits) { l.Resolution = time.Minute }),
		"a short maximum":    change(func(l *delayer.Limits) { l.Max, l.CancelBefore = 300*time.Millisecond, 0 }),
		"without maximum":    change(func(l *delayer.Limits) { l.Max = math.MaxInt64; l.Resolution = time.Nanosecond }),
		"tiers":              change(func(l *delayer.Limits) { l.Tiers, l.Max = tiers, time.Minute }),
		"exact tiers":        change(func(l *delayer.Limits) { l.Tiers, l.Max, l.ExactTiers = tiers, time.Minute, true }),
		"one tier":           change(func(l *delayer.Limits) { l.Tiers, l.Max = tiers[:1], time.Second }),
		"few priorities":     change(func(l *delayer.Limits) { l.MaxPriority = 4 }),
		"no priorities":      change(func(l *delayer.Limits) { l.MaxPriority = 0 }),
		"promising not much": {Max: time.Hour, Resolution: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				conformance.RunOn(r, harness(newBroker(limits)))
				assert.Empty(t, r.failed())
				assert.Len(t, r.subtests, len(conformance.Cases()))
				for name, sub := range r.subtests {
					assert.Empty(t, sub.skipped, name)
				}
				want := slices.Clone(inapplicable[name])
				if !limits.ExactTiers {
					want = append(want, "exact-tiers")
				}
				assert.ElementsMatch(t, want, passedOver(r), "cases that show nothing")
			})
		})
	}
}

var ofTickets = []string{
	"cancel", "cancel-too-late", "debounce", "ids", "ids-refused", "postpone", "postpone-cancelled", "postpone-earlier",
	"postpone-older-ticket", "postpone-one-ticket-twice", "tickets",
}

// ofLongDelays are the cases of Delayers that can wait for longer than any case.
var ofLongDelays = []string{"long-delays-arrive", "long-delays-wait"}

// inapplicable are the cases for which the kinds of limits of TestCorrect leave nothing to show.
// All but "exact tiers" also lack exact-tiers.
var inapplicable = map[string][]string{
	"exact tiers":        {"rounding-up"},
	"a short maximum":    append(ofLongDelays, ofTickets...),
	"without maximum":    {"beyond-maximum"},
	"one tier":           append(ofLongDelays, "no-head-of-line-blocking", "postpone-earlier", "priorities-do-not-block"),
	"no priorities":      {"priorities-do-not-block"},
	"promising not much": append([]string{"priorities-do-not-block", "same-delay-keeps-order"}, ofTickets...),
}

// passedOver are the cases that said that they show nothing of their Delayer.
func passedOver(r *recorder) (names []string) {
	for name, sub := range r.subtests {
		if sub.passed != "" {
			names = append(names, name)
		}
	}
	return names
}

// handless is a World that can do nothing to its broker.
type handless struct{ conformance.World }

func (handless) Cut(context.Context) error     { return conformance.Unable("cut: no hands") }
func (handless) Restart(context.Context) error { return conformance.Unable("restart: no hands") }
func (handless) DeclareStuckQueue(context.Context, string) (func(context.Context) error, error) {
	return nil, conformance.Unable("suspend a queue: no hands")
}
func (handless) Clock(context.Context) (conformance.Clock, error) {
	return nil, conformance.Unable("put the clock forward: no hands")
}
func (handless) DeleteOwnExchange(context.Context) error {
	return conformance.Unable("delete an exchange: no hands")
}

func TestUnableIsSkippedWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := harness(newBroker(idealLimits()))
		world := h.World
		h.World = func(ctx context.Context) (conformance.World, error) {
			w, err := world(ctx)
			return handless{w}, err
		}
		reasons := map[string]string{
			"long-delays-arrive": "put the clock forward: no hands",
			"connection-cut":     "cut: no hands", "own-exchange-deleted": "delete an exchange: no hands", "broker-restart": "restart: no hands",
			"destination-stuck": "suspend a queue: no hands", "batch-destination-stuck": "suspend a queue: no hands",
		}
		r := &recorder{}
		conformance.RunOn(r, h)
		assert.Empty(t, r.failed())
		assert.Len(t, r.subtests, len(conformance.Cases()))
		for name, sub := range r.subtests {
			assert.Equal(t, reasons[name], sub.skipped, "%s: the others need no hands", name)
		}
	})
}

func TestOnly(t *testing.T) {
	for only, failures := range map[string]int{"arrives": 0, "closed": 0, "long-delays-arrive": 0, "unheard-of": 1} {
		synctest.Test(t, func(t *testing.T) {
			h := harness(newBroker(idealLimits()))
			h.Only = []string{only}
			r := &recorder{}
			var running sync.WaitGroup
			running.Go(func() { conformance.RunOn(r, h) })
			running.Wait()
			assert.Len(t, r.failures, failures, only)
			assert.Len(t, r.subtests, 1-failures, only)
			assert.Empty(t, r.failed(), only)
		})
	}
}

// TestCasesAreDocumented: what a case says when it fails is a requirement, and no other case's.
func TestCasesAreDocumented(t *testing.T) {
	requirement := regexp.MustCompile(`^\pL.* (must|may) .+`)
	names, said := map[string]bool{}, map[string]bool{}
	for _, c := range conformance.Cases() {
		assert.Regexp(t, `^[a-z]+(-[a-z]+)*$`, c.Name)
		assert.False(t, names[c.Name], "%s is there twice", c.Name)
		assert.Regexp(t, requirement, c.Sentence, "%s: a sentence says what must or may be", c.Name)
		assert.False(t, said[c.Sentence], "%s says what another case says", c.Name)
		names[c.Name], said[c.Sentence] = true, true
	}
}
