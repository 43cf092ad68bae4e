package controller

import "time"

const (
	// sliceOf is how often a message in memory that has a ticket is looked at: whether it was
	// cancelled, or is due earlier now.
	sliceOf = 2 * time.Second
	// uncoveredFor is how long a message that is due waits until it is looked at again, while it is
	// not known whether it was cancelled.
	uncoveredFor = 50 * time.Millisecond
	// marksFor is how long before a message is due marks are written.
	marksFor = 5 * time.Second
	// brokersClock is the clock of a stamp whose due time is known by the broker's clock alone.
	brokersClock = "broker"
)

// current returns a message as it is to be treated after all changes that are known of it. gone is
// true if it was cancelled.
func (r *slotRouter) current(m incoming) (changed incoming, gone bool) {
	if !m.stamp.ticket {
		return m, false
	}
	fate, ok := r.changes.of(m.envelope.ID)
	switch {
	case !ok:
	case fate.Cancelled:
		return m, true
	case fate.Revision > 0 && (fate.Due != m.stamp.at || fate.Since != m.stamp.since):
		by := time.Duration(fate.Due-m.stamp.at) * time.Millisecond
		m.envelope.Due, m.envelope.Delay = m.envelope.Due.Add(by), max(0, m.envelope.Delay+by)
		m.stamp.clock, m.stamp.at, m.stamp.since = brokersClock, fate.Due, fate.Since
	}
	return m, false
}

// due delivers a message, if it is certain that it was neither cancelled nor postponed. The
// certainty comes first: what is read after that was not accepted in time.
func (r *slotRouter) due(c *consumer, m incoming) {
	if !m.stamp.ticket {
		c.work(func() { r.send(c, m) })
		return
	}
	now, known := r.clock.read()
	if !known || !r.changes.covers(now.Earliest.Sub(dueAt(m.stamp, now))) {
		r.changes.expect()
		r.hold(c, m, uncoveredFor)
		return
	}
	switch changed, gone := r.current(m); {
	case gone:
		r.acknowledge(m.Delivery)
	case changed.stamp.at != m.stamp.at || changed.stamp.since != m.stamp.since:
		r.route(c, changed)
	default:
		c.work(func() { r.send(c, m) })
	}
}

// slice is how long a message is held until it is looked at again.
func (r *slotRouter) slice(m incoming, remaining time.Duration) time.Duration {
	if !m.stamp.ticket {
		return remaining
	}
	if remaining <= marksFor {
		r.changes.expect()
	}
	return min(remaining, sliceOf)
}
