package changes

import (
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A process that delivers a message must know all changes that were accepted for it. So it writes a
// mark into the stream, and waits until it has read it: then it has read all that was confirmed
// before the mark was sent. A change is accepted only if it is confirmed AcceptedBefore the message
// is due. So a mark is enough that was sent within MarkedBefore of that time, or later.
//
//	        AcceptedBefore            MarkedBefore            due
//	──────────────┼───────────────────────┼────────────────────┼──→ the broker's time
//	changes are   │ for what processes    │ a mark that was sent
//	confirmed     │ take the time for     │ from here on covers it
const (
	AcceptedBefore = 5 * time.Second
	MarkedBefore   = 3 * time.Second
)

// Marks are those of one process.
type Marks struct {
	sent []mark // that have not come back, the first sent first
	last mark   // the last that came back
}

type mark struct {
	id string
	at brokertime.Instant
}

// mostSent is how many marks are waited for. Where so many are lost, nothing is covered anyway.
const mostSent = 100

// Send notes a mark that is about to be written.
func (m *Marks) Send(id string, now brokertime.Instant) {
	if len(m.sent) == mostSent {
		m.sent = m.sent[1:]
	}
	m.sent = append(m.sent, mark{id, now})
}

// Back notes a mark that was read, and reports whether it is one of this process that was waited for.
func (m *Marks) Back(id string) bool {
	for i, sent := range m.sent {
		if sent.id == id {
			m.last, m.sent = sent, m.sent[i+1:]
			return true
		}
	}
	return false
}

// Age is the most that can have passed since the last mark that came back was sent. ok is false if none
// did.
func (m *Marks) Age(now brokertime.Instant) (age time.Duration, ok bool) {
	return now.AtMost(m.last.at), m.last.id != ""
}

// Covers reports whether all changes are known that were accepted for a message. overdue is for how
// long at least it has been due; negative before that.
func (m *Marks) Covers(now brokertime.Instant, overdue time.Duration) bool {
	age, ok := m.Age(now)
	return ok && age <= MarkedBefore+overdue
}

// SentAfter reports whether the last mark that came back was sent after a moment.
func (m *Marks) SentAfter(since brokertime.Instant) bool {
	return m.last.id != "" && m.last.at.Mono >= since.Mono
}
