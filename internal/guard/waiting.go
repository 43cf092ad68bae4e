package guard

import "time"

const (
	// probeTTL is how long a probe waits where no policy says otherwise. In a Delayer at work each
	// is replaced long before.
	probeTTL = 24 * time.Hour

	// clockSlack is how much the broker's clock may be ahead of ours after probeTTL. A probe that
	// comes back so late is not early: it had no successor because the Delayer was idle.
	clockSlack = time.Hour

	// proofMargin is how much longer than the early probe a later one must wait to show that the
	// policy is gone.
	proofMargin = time.Second

	// probeQueues is how many queues for one probe each a Delayer has. The first gets a new probe
	// at each look, each further one a quarter as often. The rarer, the longer a TTL it finds: up
	// to 20 minutes. Only the first message of a queue expires; behind one from before the policy
	// none would.
	probeQueues = 5
)

// waiting is what is known of the probes that wait. It does nothing by itself: its methods are told
// what happens, and when.
type waiting struct {
	every  time.Duration // the pause between two probes of the first queue
	probes [probeQueues]probe

	early bool          // a probe came back early, and no later one has shown that the policy is gone
	lived time.Duration // the longest that an early probe can have waited
}

// A probe is the message in one queue. The zero value says that none is there.
type probe struct {
	id     string
	sent   instant // before it was published
	stored instant // after the broker confirmed it
	later  bool    // than the last early probe: it may show that the policy is gone
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

// due says that a queue needs another probe.
func (w *waiting) due(n int, now instant) bool {
	p := w.probes[n]
	return p.id == "" || now.atMost(p.sent) >= w.pause(n)
}

// sending says that a probe is being published. The one before it is of no interest any more.
func (w *waiting) sending(n int, id string, now instant) {
	w.probes[n] = probe{id: id, sent: now}
}

// confirmed says that the broker has stored the probe.
func (w *waiting) confirmed(n int, now instant) {
	w.probes[n].stored, w.probes[n].later = now, true
}

// forget says that it is not known whether a probe is in a queue.
func (w *waiting) forget(n int) { w.probes[n] = probe{} }

// forgetAll says that all queues are empty.
func (w *waiting) forgetAll() { w.probes = [probeQueues]probe{} }

// returned says that a message has come back. It returns the queue of a probe that came back early,
// and how long that waited at most. Probes that were replaced are not early.
func (w *waiting) returned(id string, now instant) (n int, lived time.Duration, early bool) {
	for n, p := range w.probes {
		if id == "" || p.id != id {
			continue
		}
		w.forget(n)
		if lived = now.atMost(p.sent); lived < probeTTL-clockSlack {
			w.foundEarly(lived)
			return n, lived, true
		}
	}
	return 0, 0, false
}

// foundEarly begins to wait for a proof of the contrary, which no probe can give that waits
// already.
func (w *waiting) foundEarly(lived time.Duration) {
	w.early, w.lived = true, max(w.lived, lived)
	for n := range w.probes {
		w.probes[n].later = false
	}
}

// witness returns the queue of a probe that, if it is still there, shows that the policy is gone.
func (w *waiting) witness(now instant) (n int, ok bool) {
	for n, p := range w.probes {
		if w.early && p.later && now.atLeast(p.stored) > w.lived+proofMargin {
			return n, true
		}
	}
	return 0, false
}

// absent says that a witness is not in its queue. It may be on its way back, so it is not
// forgotten.
func (w *waiting) absent(n int) { w.probes[n].later = false }

// proven says that a witness is still in its queue.
func (w *waiting) proven() { w.early, w.lived = false, 0 }
