package wheel

import (
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A Kind is what a delivery is to the machine.
type Kind int

// The kinds.
const (
	User    Kind = iota // a message of the user's
	Change              // drops or postpones one
	Mark                // comes back to who has read all that was stored before it
	Summons             // who gets it leads
	Foreign             // not ours: it is kept with the unroutable messages
)

// A Message is one delivery. Who delivers it fills in the exported fields; Body is of no interest
// here. The machine changes Due to OwnDue: they say when the message is due that is published.
type Message struct {
	Kind Kind
	ID   string
	Size int // bytes in memory
	Body any

	Again    bool // its queue has delivered it before
	Consumer int  // to which it came: how often the slot had been consumed since the visit began

	brokertime.Due                  // of a message; of a change, that of the message that it is for. Zero: none was known
	Ticket         bool             // it may be dropped or postponed
	Then           []brokertime.Due // it was postponed to these as well, the first first: it is delivered at the last
	To             string           // its destination

	Own    bool          // it was stamped by this process,
	OwnDue time.Duration // whose clock says that it is due then
	Left   time.Duration // without a Due: what remained of its delay when it came

	PostponedTo brokertime.Due // the latest time to which it was postponed since it came; 0: it was not

	Next brokertime.Due // of a change: the message is due then instead; zero: it is dropped
	Mark MarkID         // of a mark

	visit   *visit
	tag     uint64
	came    time.Duration
	tries   int  // that failed
	decided bool // it is certain that it was not dropped
	flying  bool // it is being delivered
	kept    bool // a change: it is in memory until its message has come
	to      Turn // where it is being moved
	moving  bool
	counted bool      // it is one of the tickets in hand
	used    []*change // that have decided about it
}

// A MarkID names a mark: the tenure that has written it, and a number.
type MarkID struct {
	Tenure string
	Number int64
}

// Now is a moment, by the clocks of this machine and what is known of the broker's.
type Now struct {
	Mono  time.Duration // since an epoch of the process
	Wall  time.Time     // without a monotonic reading
	Clock brokertime.Reading
	Known bool // of the broker's clock
}

// Until is how long it is until something is due, at most. The broker's clock must be known.
func (n Now) Until(d brokertime.Due) time.Duration { return d.Time().Sub(n.Clock.Earliest) }

// reckon is the due time of what has so long to wait, by the broker's clock.
func (n Now) reckon(left time.Duration) brokertime.Due {
	return brokertime.Due(ceilMillis(n.Clock.From.Add(left)))
}

func ceilMillis(t time.Time) int64 {
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		return t.UnixMilli() + 1
	}
	return t.UnixMilli()
}

// OwnFor is the longest delay that the clock of the process counts for which stamped the message.
// It may gain or lose 200 ppm on the broker's.
const OwnFor = 15 * time.Minute

// left is how much of the delay is left, at most. ok is false while that is unknown. By the
// broker's clock everybody knows it. The process that stamped the message also knows it by its own
// clock, and more precisely. But that clock may have stopped for a while, with the machine; so what
// is over by the broker's clock is over.
func (m *Message) left(now Now) (left time.Duration, ok bool) {
	unknown, own := m.Due == 0, m.OwnDue-now.Mono
	switch {
	case m.Own && (unknown || !now.Known):
		return own, true
	case unknown:
		return m.Left - (now.Mono - m.came), true
	case !now.Known:
		return 0, false
	case m.Own:
		return min(own, now.Until(m.Due)), true
	}
	return now.Until(m.Due), true
}

// age is how long the message is unacknowledged.
func (m *Message) age(now Now) time.Duration { return now.Mono - m.came }

// postpone makes the message due when it is due next, by its own list and what changes say. It is
// false if there is no later time: the message is to be delivered.
func (m *Message) postpone(to []brokertime.Due) bool {
	all := slices.DeleteFunc(slices.Concat(m.Then, to), func(d brokertime.Due) bool {
		return d < m.Due || d == m.Due && !m.Own // its own clock may show the time that it had a little earlier
	})
	if len(all) == 0 {
		return false
	}
	slices.Sort(all)
	all = slices.Compact(all)
	all = all[max(0, len(all)-MostThen):] // the last is what was promised, and the newest tickets are for the latest
	m.Due, m.Then, m.Own, m.PostponedTo = all[0], all[1:], false, all[0]
	return true
}

// MostThen is how many later due times a message carries. It has more than one only after several
// Postpones of the same ticket.
const MostThen = 256
