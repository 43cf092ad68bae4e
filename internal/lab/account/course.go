package account

import "time"

// A Course is what became of one message. Times are those of its [Account]; 0 is never.
type Course[ID comparable] struct {
	ID    ID
	Group int  // what the message is for: the caller's
	Aside bool // only noted: neither awaited nor judged

	Intended time.Duration // when Publish was to be called
	Asked    time.Duration // just before Publish was called
	Delay    time.Duration // what was asked of the Delayer
	Answered time.Duration // when Publish returned
	Err      error         // what Publish returned
	Outcome  Outcome       // what the publisher was told last

	Postponed bool          // Postpone has changed Delay
	Kept      bool          // found elsewhere than at its destination
	Copies    int           // how often it arrived
	Arrived   time.Duration // the earliest arrival, if Copies > 0
}

// Due is when the message was meant to arrive.
func (m *Course[ID]) Due() time.Duration { return m.Intended + m.Delay }

// Lateness is how long after Due the message arrived. It tells nothing if Copies is 0.
func (m *Course[ID]) Lateness() time.Duration { return m.Arrived - m.Due() }

// EarlyBy is how much of the delay was missing when the message arrived; 0 if it was not early. It
// counts from Asked, not from Intended: a late Publish must not hide an early arrival.
func (m *Course[ID]) EarlyBy() time.Duration {
	if m.Copies == 0 {
		return 0
	}
	return max(0, m.Asked+m.Delay-m.Arrived)
}

// Missing reports whether the message was promised, and is nowhere.
func (m *Course[ID]) Missing() bool { return m.Outcome == Confirmed && m.Copies == 0 && !m.Kept }

// Stranger reports whether nobody has asked for the message.
func (m *Course[ID]) Stranger() bool { return m.Asked == 0 }

func (m *Course[ID]) awaitedMissing() int { return one(!m.Aside && m.Missing()) }

func (m *Course[ID]) awaitedArrived() int {
	return one(!m.Aside && !m.Stranger() && (m.Copies > 0 || m.Kept))
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// A Verdict says what became of messages. A list has each message once, in the order in which they
// were first heard of. A message may be in several lists.
type Verdict[ID comparable] struct {
	Sent                                            int // asked for
	Confirmed, Refused, Unknown, Cancelled, Waiting int // by outcome
	Postponed                                       int

	Delivered int // confirmed and arrived
	Kept      int // confirmed and kept, and not arrived
	Surprised int // unknown and arrived
	Extra     int // copies beyond the first of each message

	// What must not be. At least once allows Twice after a failure.
	Missing   []Course[ID] // confirmed, and neither arrived nor kept
	Early     []Course[ID]
	Twice     []Course[ID] // arrived more than once
	Untrue    []Course[ID] // refused, and arrived
	Revived   []Course[ID] // cancelled, and arrived
	Strangers []Course[ID] // arrived, and nobody asked for them
}

// Judge judges messages. It leaves out those that are aside.
func Judge[ID comparable](messages []Course[ID]) (v Verdict[ID]) {
	for _, m := range messages {
		switch {
		case m.Aside:
		case m.Stranger():
			v.Strangers = append(v.Strangers, m)
		default:
			v.outcome(m)
			v.arrival(m)
		}
	}
	return v
}

func (v *Verdict[ID]) outcome(m Course[ID]) {
	arrived := m.Copies > 0
	v.Sent++
	v.Postponed += one(m.Postponed)
	switch m.Outcome {
	case Confirmed:
		v.Confirmed++
		v.Delivered += one(arrived)
		v.Kept += one(m.Kept && !arrived)
		add(&v.Missing, m, m.Missing())
	case Refused:
		v.Refused++
		add(&v.Untrue, m, arrived)
	case Cancelled:
		v.Cancelled++
		add(&v.Revived, m, arrived)
	case Unknown:
		v.Unknown++
		v.Surprised += one(arrived)
	default:
		v.Waiting++
	}
}

func (v *Verdict[ID]) arrival(m Course[ID]) {
	v.Extra += max(0, m.Copies-1)
	add(&v.Early, m, m.EarlyBy() > 0)
	add(&v.Twice, m, m.Copies > 1)
}

func add[ID comparable](list *[]Course[ID], m Course[ID], yes bool) {
	if yes {
		*list = append(*list, m)
	}
}
