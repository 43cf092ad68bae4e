package guard

import (
	"errors"

	"github.com/delayer-go/delayer"
)

// A source is one way to learn of policies.
type source int

const (
	none           source = iota
	waitingProbes         // probes that wait, and must not come back early
	alternateProbe        // a message without a route, which must be returned
	overflowProbe         // messages to a full queue, which must be refused
	managementAPI
	sources
)

// errUndecided is the answer of a source that has seen nothing either way.
var errUndecided = errors.New("undecided")

// A change is what an answer does to the fault that is reported.
type change int

const (
	unchanged change = iota
	found            // a fault is reported that was not before
	lifted           // no source knows of a fault any more
)

// verdicts are what each source said last. A fault ends when the source that found it finds
// nothing.
type verdicts struct {
	faults   [sources]*delayer.Error
	reported source // whose fault is reported, or none; the same one as long as it stands
}

// fault returns the fault that is reported, or nil.
func (v *verdicts) fault() *delayer.Error { return v.faults[v.reported] }

// learn takes the answer of a source: nil says that it found nothing, ErrConflict that it found a
// policy. After any other error nothing is known, so nothing changes.
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

// next returns a source that knows of a fault, or none.
func (v *verdicts) next() source {
	for s, fault := range v.faults {
		if fault != nil {
			return source(s)
		}
	}
	return none
}
