package guard

import (
	"time"

	"github.com/delayer-go/delayer/internal/instant"
)

const (
	// probeTTL is how long a probe waits without a policy. A busy Delayer replaces each one long
	// before.
	probeTTL = 24 * time.Hour

	// clockSlack is how far the broker's clock may run ahead of ours within probeTTL. A probe that
	// comes back that late is not early: it was not replaced because the Delayer was idle.
	clockSlack = time.Hour

	// proofMargin is how much longer than the early probe a later one must wait to show that the
	// policy is gone.
	proofMargin = time.Second

	// probeQueues is how many probe queues, with one probe each, a Delayer has. The first gets a
	// new probe at each look, each further one a quarter as often. The longer a probe stays, the
	// longer the TTL that it detects: up to 20 minutes. A queue holds one probe only, because a
	// message expires only at the head of its queue.
	probeQueues = 5
)

// waiting is a state machine: what is known of the waiting probes. Its methods are told what
// happens, and when.
type waiting struct {
	every  time.Duration // the pause between two probes of the first queue
	probes [probeQueues]probe

	early bool          // a probe came back early, and no later one has shown yet that the policy is gone
	lived time.Duration // the longest time that an early probe can have waited
}

// A probe is the message in one queue. The zero value: there is none.
type probe struct {
	id     string
	sent   instant.Instant // before it was published
	stored instant.Instant // after the broker confirmed it
	later  bool            // sent after the last early probe: it may show that the policy is gone
}

// pause returns how long a probe stays before the next one replaces it. The last one stays until it
// can show that the policy is gone.
func (w *waiting) pause(n int) time.Duration {
	pause := w.every << (2 * n)
	if w.early && n == probeQueues-1 {
		pause = max(pause, w.lived+proofMargin+w.every)
	}
	return pause
}

// due reports whether a queue needs another probe.
func (w *waiting) due(n int, now instant.Instant) bool {
	p := w.probes[n]
	return p.id == "" || now.AtMost(p.sent) >= w.pause(n)
}

// sending notes that a probe is being published. It replaces the one before.
func (w *waiting) sending(n int, id string, now instant.Instant) {
	w.probes[n] = probe{id: id, sent: now}
}

// confirmed notes that the broker has stored the probe.
func (w *waiting) confirmed(n int, now instant.Instant) {
	w.probes[n].stored, w.probes[n].later = now, true
}

// forget notes that a queue may or may not hold a probe.
func (w *waiting) forget(n int) { w.probes[n] = probe{} }

// forgetAll notes that all queues are empty.
func (w *waiting) forgetAll() { w.probes = [probeQueues]probe{} }

// returned notes that a message has come back. If it is an early probe, it returns the probe's
// queue and the longest time that it can have waited. Replaced probes are not early.
func (w *waiting) returned(id string, now instant.Instant) (n int, lived time.Duration, early bool) {
	for n, p := range w.probes {
		if id == "" || p.id != id {
			continue
		}
		w.forget(n)
		if lived = now.AtMost(p.sent); lived < probeTTL-clockSlack {
			w.foundEarly(lived)
			return n, lived, true
		}
	}
	return 0, 0, false
}

// foundEarly notes an early probe. Only a probe that is sent from now on can show that the policy
// is gone.
func (w *waiting) foundEarly(lived time.Duration) {
	w.early, w.lived = true, max(w.lived, lived)
	for n := range w.probes {
		w.probes[n].later = false
	}
}

// witness returns the queue of a probe that shows that the policy is gone if it is still there.
func (w *waiting) witness(now instant.Instant) (n int, ok bool) {
	for n, p := range w.probes {
		if w.early && p.later && now.AtLeast(p.stored) > w.lived+proofMargin {
			return n, true
		}
	}
	return 0, false
}

// absent notes that a witness is not in its queue. It may be coming back, so it is not forgotten.
func (w *waiting) absent(n int) { w.probes[n].later = false }

// proven notes that a witness is still in its queue: the policy is gone.
func (w *waiting) proven() { w.early, w.lived = false, 0 }
