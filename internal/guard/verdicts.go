package guard

import (
	"errors"

	"github.com/delayer-go/delayer"
)

// A source is one means of finding policies.
type source int

const (
	none           source = iota
	waitingProbes         // waiting probes, which must not come back early
	alternateProbe        // a message without a route, which must be returned
	overflowProbe         // messages to a full queue, which must be refused
	managementAPI
	sources
)

// errUndecided is the answer of a source that does not know.
var errUndecided = errors.New("undecided")

// A change is the effect of an answer on the reported fault.
type change int

const (
	unchanged change = iota
	found            // a fault is reported that was not before
	lifted           // no source reports a fault any more
)

// verdicts hold the last answer of each source. A fault ends when the source that found it finds
// nothing.
type verdicts struct {
	faults   [sources]*delayer.Error
	reported source // the source of the reported fault, or none; it stays the same until its fault ends
}

// fault returns the fault that is reported, or nil.
func (v *verdicts) fault() *delayer.Error { return v.faults[v.reported] }

// learn takes the answer of a source: nil if it found nothing, ErrConflict if it found a policy.
// Any other error means that it does not know, and changes nothing.
func (v *verdicts) learn(from source, answer error) change {
	var fault *delayer.Error
	if answer != nil && (!errors.Is(answer, delayer.ErrConflict) || !errors.As(answer, &fault)) {
		return unchanged
	}
	v.faults[from] = fault
	before := v.reported
	if v.fault() == nil {
		v.reported = v.next()
	}
	switch v.reported {
	case before:
		return unchanged
	case none:
		return lifted
	default:
		return found
	}
}

// next returns a source with a fault, or none.
func (v *verdicts) next() source {
	for s, fault := range v.faults {
		if fault != nil {
			return source(s)
		}
	}
	return none
}
