package brokertime

import "time"

// Nodes are the clocks of several nodes of a cluster: each Clock has connections to one address.
// All must be listed, because AMQP tells neither which nodes there are nor where a queue's leader is.
type Nodes []*Clock

// Now returns a time such that the clocks of all nodes show one within ± uncertainty. A node of
// which nothing is known does not count: it is down, and dates nothing. ok is false if that is so
// of all.
func (n Nodes) Now() (t time.Time, uncertainty time.Duration, ok bool) {
	var earliest, latest time.Time
	for _, clock := range n {
		at, within, known := clock.Now()
		if !known {
			continue
		}
		if from := at.Add(-within); !ok || from.Before(earliest) {
			earliest = from
		}
		if to := at.Add(within); !ok || to.After(latest) {
			latest = to
		}
		ok = true
	}
	if !ok {
		return time.Time{}, 0, false
	}
	uncertainty = latest.Sub(earliest)/2 + 1
	return earliest.Add(uncertainty), uncertainty, true
}
