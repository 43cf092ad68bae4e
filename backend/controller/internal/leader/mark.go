package leader

import (
	"maps"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

const (
	// AcceptedBefore is how long before its message is due a change must be confirmed, markedBefore
	// how long before it a mark must be written at the earliest. What is between them is for
	// processes that see the broker's time a little differently.
	AcceptedBefore, markedBefore = 5 * time.Second, 3 * time.Second

	// markEvery is how often a candidate writes a mark, markTickets how often a leader does while
	// it has messages with tickets, markIdle while it has none.
	markEvery, markTickets, markIdle = 15 * time.Second, time.Second, time.Minute
	// RenewAfter is how long a candidate waits before it consumes the log anew. If somebody deletes
	// the log and declares it again, RabbitMQ does not tell the consumers.
	RenewAfter = 2 * time.Minute
	// missedAfter is how long a leader waits for a mark.
	missedAfter = 20 * time.Second
)

// marks are those of this leader in the log.
type marks struct {
	sent     []mark // that have not come back, the first sent first
	wrote    time.Duration
	back     time.Time     // what the broker's clock showed when the last was written that came back
	backMono time.Duration // the same by the clock of this process
	held     *parcel       // the newest of anybody's: whoever gets it next leads
}

// Renews is why a candidate surrenders that has waited for long.
const Renews = "it consumes the log anew"

type mark struct {
	id   uint64
	at   time.Time
	mono time.Duration
}

// proves reports whether all changes have been read that were accepted for what is due then.
func (m *marks) proves(due brokertime.Due) bool {
	return !m.back.IsZero() && !m.back.Before(due.Time().Add(-markedBefore))
}

// InTime reports whether a message that is due then can still be changed. It is asked before a
// change is written, and again after its confirm.
func InTime(now Now, due brokertime.Due) bool {
	return now.Known && !now.Clock.Latest.Add(AcceptedBefore).After(due.Time())
}

// writeMark writes a mark when one is wanted.
func (l *Leader) writeMark() {
	since := l.now.Mono - l.marks.wrote
	switch {
	case !l.leading && l.now.Mono-l.began > RenewAfter:
		l.surrender(Renews)
		return
	case l.leading && l.now.Known && len(l.marks.sent) > 0 && l.now.Mono-l.marks.sent[0].mono > missedAfter:
		l.surrender("the log does not deliver")
		return
	case !l.leading && since < markEvery, since < markTickets:
		return
	case l.leading && since < markIdle && !l.marks.back.IsZero() && !l.wantsMark():
		return
	}
	l.marks.wrote = l.now.Mono
	m := mark{at: l.now.Clock.Earliest, mono: l.now.Mono}
	if !l.now.Known {
		m.at = time.Time{}
	}
	m.id = l.write(Log, &bundle.Bundle{Records: []bundle.Record{{Kind: bundle.Mark}}}, nil)
	l.marks.sent = append(l.marks.sent, m)
	if !l.leading && len(l.marks.sent) > 1 {
		l.marks.sent = l.marks.sent[1:]
	}
}

// wantsMark reports whether something in hand needs the proof of a mark.
func (l *Leader) wantsMark() bool {
	return l.waitsForDest() || slices.ContainsFunc(l.order, func(s *slot) bool {
		return s.queue.Ring == 0 && s.open() && (len(s.kept) > 0 || s.tickets)
	})
}

// marked notes a mark that came back. One that is delivered again proves nothing, and is written
// again: a queue gives back out of order, and it was given to a consumer of before.
func (l *Leader) marked(s *slot, p *parcel, d Delivered) {
	own := d.Bundle.Writer == l.cfg.Tenure
	if s == nil {
		l.markedLog(p, own, d)
		return
	}
	l.finish(p)
	l.known.of(s.queue).Bundles--
	switch {
	case !own || d.Bundle.Number != s.tail:
	case d.Again:
		s.tail = 0
	default:
		s.drained, l.recheck = true, true
		maps.DeleteFunc(s.awaits, func(id uint64, _ brokertime.Due) bool { return id < s.tail })
		if s.peeked {
			l.release(s)
		}
	}
}

func (l *Leader) markedLog(p *parcel, own bool, d Delivered) {
	if l.marks.held != nil {
		l.finish(l.marks.held)
	}
	l.marks.held = p
	i := slices.IndexFunc(l.marks.sent, func(m mark) bool { return own && m.id == d.Bundle.Number })
	if i < 0 {
		return
	}
	if m := l.marks.sent[i]; !d.Again {
		l.marks.back, l.marks.backMono = m.at, m.mono
		l.recheck = true
	}
	l.marks.sent = l.marks.sent[i+1:]
}
