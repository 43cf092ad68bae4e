package leader

import (
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// A slot is one that is consumed: in its turn, or to look at its head.
type slot struct {
	*source
	turn      bundle.Turn
	peeked    bool         // only its head is wanted
	reopen    *bundle.Turn // that is its turn: it is opened when it is released
	consumed  bool         // otherwise it is known to be empty
	releasing bool

	tail    uint64                    // the mark that was written behind what was in it
	drained bool                      // that has come back
	awaits  map[uint64]brokertime.Due // bundles that were written since, and are to come; when their first record is due
	kept    []*parcel                 // changes, until the turn is over

	from    time.Time // the beginning of the turn, or the earliest due time of what was in hand or written
	until   time.Time // the end of the turn, or the latest of those
	entries []*entry
	tickets bool          // messages of this turn have some, or had
	items   int           // messages of this turn in hand, wherever they came from
	done    time.Duration // when the last of those was finished
}

const (
	// peeksAtOnce is how many slots are looked at together.
	peeksAtOnce = 8
	// outlives is how much older than a mark the last acknowledgement of a turn's messages must be.
	outlives = 5 * time.Second
)

// turnOf returns the open slot of the first ring in whose turn something is due. What is over for
// long is of the oldest. nil: its turn is not open.
func (l *Leader) turnOf(due brokertime.Due) *slot {
	t := l.rings.at(0, due.Time())
	if s := l.slots[l.rings.Slot(t)]; s != nil && s.turn == t && s.open() {
		return s
	}
	for _, s := range l.order { // the oldest first
		if s.queue.Ring == 0 && s.open() {
			if t.Number < s.turn.Number || t.Number <= l.read[0] {
				return s
			}
			return nil
		}
	}
	return nil
}

// turnFor is turnOf for a record: where something of the same message is, it belongs there.
func (l *Leader) turnFor(it *Item) *slot {
	if e := l.entries[key{it.ID, it.Due}]; e != nil && e.slot != nil && e.slot.open() {
		return e.slot
	}
	return l.turnOf(it.Due)
}

// covers notes that something is in hand, or written, that is due then.
func (s *slot) covers(due brokertime.Due) {
	t := due.Time()
	if t.Before(s.from) {
		s.from = t
	}
	if t.After(s.until) {
		s.until = t
	}
}

func (s *slot) open() bool { return !s.peeked && !s.releasing }

// add adds a slot to those that are consumed.
func (l *Leader) add(q Queue, t bundle.Turn, peek bool) *slot {
	s := &slot{source: newSource(q, l.now.Mono), turn: t, peeked: peek, awaits: map[uint64]brokertime.Due{}}
	s.from, s.until = l.rings.begin(t), l.rings.end(t)
	l.slots[q] = s
	at, begin := len(l.order), l.rings.begin(t)
	for at > 0 && l.rings.begin(l.order[at-1].turn).After(begin) {
		at--
	}
	l.order = slices.Insert(l.order, at, s)
	return s
}

// consume begins to consume a slot.
func (l *Leader) consume(s *slot) {
	prefetch := l.most(s.source)
	if s.peeked {
		prefetch = 1
	}
	s.consumed = true
	l.do(Consume{s.queue, prefetch})
}

// writeTail writes the mark of a slot. It is stored behind all that this leader wrote before, and
// what earlier leaders did.
func (l *Leader) writeTail(s *slot) {
	b := &bundle.Bundle{InSlot: true, Turn: s.turn, Records: []bundle.Record{{Kind: bundle.Mark}}}
	s.tail = l.write(s.queue, b, nil)
}

// openTurns opens the slots whose turn has come.
func (l *Leader) openTurns() {
	for ring := range l.rings {
		last := l.rings.at(ring, l.now.Clock.Latest.Add(l.rings[ring].Lead))
		if l.read[ring] == 0 { // it begins to lead
			l.read[ring] = l.rings.at(ring, l.now.Clock.Earliest).Number - 1
		}
		l.read[ring] = max(l.read[ring], last.Number-int64(l.rings[ring].Slots)) // each slot once
		for l.read[ring] < last.Number {
			l.read[ring]++
			t := bundle.Turn{Level: ring, Number: l.read[ring]}
			q := l.rings.Slot(t)
			over := l.now.Clock.Earliest.Sub(l.rings.end(t)) > l.rings[ring].Linger
			switch s := l.slots[q]; {
			case s != nil && (s.peeked || s.releasing):
				s.reopen = &t
			case s != nil: // it is open for an earlier turn, and was not written for this
			case over && l.knownEmpty(q):
			default:
				l.peeks = slices.DeleteFunc(l.peeks, func(p Queue) bool { return p == q })
				l.open(q, t)
			}
		}
	}
}

// open opens a slot for a turn. What this leader knows to be empty is not consumed.
func (l *Leader) open(q Queue, t bundle.Turn) {
	s := l.add(q, t, false)
	if s.drained = l.knownEmpty(q); !s.drained {
		l.consume(s)
		l.writeTail(s)
	}
	if q.Ring > 0 {
		return
	}
	for _, e := range l.entries {
		if e.slot != nil {
			continue
		}
		l.adopt(e)
		if it := e.item; e.slot != nil && it != nil && it.slot == nil {
			it.slot = e.slot
			e.slot.items++
		}
	}
}

// emptyFor is how long a slot is taken to be empty that was found so: somebody may put something
// there.
const emptyFor = 10 * time.Minute

// knownEmpty reports whether nothing is in a slot.
func (l *Leader) knownEmpty(q Queue) bool {
	found, is := l.empty[q]
	return is && l.now.Mono-found < emptyFor
}

// peekSome looks at the heads of slots that earlier leaders may have left something in.
func (l *Leader) peekSome() {
	for l.peeking < peeksAtOnce && len(l.peeks) > 0 {
		q := l.peeks[0]
		l.peeks = l.peeks[1:]
		if l.slots[q] == nil {
			l.peeking++
			s := l.add(q, l.lastTurn(q), true)
			l.consume(s)
			l.writeTail(s)
		}
	}
}

// lastTurn is the last turn of a slot that has been opened.
func (l *Leader) lastTurn(q Queue) bundle.Turn {
	read := l.read[q.Ring]
	return bundle.Turn{Level: q.Ring, Number: read - (read-int64(q.Index))%int64(l.rings[q.Ring].Slots)}
}

// looked notes what is at the head of a slot: its bundles go back, and it is opened if their turn
// has been.
func (l *Leader) looked(s *slot, b *bundle.Bundle) {
	t, lap := b.Turn, int64(l.rings[s.queue.Ring].Slots)
	if !b.InSlot || !l.rings.valid(t) || l.rings.Slot(t) != s.queue || t.Number > l.read[t.Level]+lap {
		t = l.lastTurn(s.queue) // it does not belong here, or the clock was set back: earlier turns are behind it
	}
	if t.Number <= l.read[s.queue.Ring] {
		s.reopen = &t
	}
	l.release(s)
}

func (l *Leader) release(s *slot) {
	s.releasing = true
	if !s.consumed {
		l.released(s.queue)
		return
	}
	l.flush(s.source, true)
	l.do(Release{s.queue})
}

// released notes that a slot is consumed no more, and all its acknowledgements are stored.
func (l *Leader) released(q Queue) {
	s := l.slots[q]
	if s == nil || !s.releasing {
		return
	}
	delete(l.slots, q)
	l.order = slices.DeleteFunc(l.order, func(other *slot) bool { return other == s })
	if s.peeked {
		l.peeking--
	}
	if s.drained {
		if s.consumed {
			l.empty[q] = l.now.Mono
		}
		l.countEmpty(s)
	}
	if s.reopen != nil {
		l.open(q, *s.reopen)
	}
}

// complete reports whether all has been read that is in slots for a turn: all slots that were
// opened before its end. If it is over, a leader that was late may have written to later ones.
func (l *Leader) complete(t bundle.Turn) bool {
	if len(l.peeks)+l.peeking > 0 {
		return false
	}
	end := l.rings.end(t)
	late := !l.now.Clock.Latest.Before(end)
	for _, s := range l.order {
		if !s.drained && (late || l.rings.begin(s.turn).Before(end)) {
			return false
		}
	}
	return true
}

// closeTurns releases slots whose turn is over.
func (l *Leader) closeTurns() {
	for _, s := range slices.Backward(l.order) { // those that are released at once leave it
		if !s.open() || !s.drained || len(s.awaits) > 0 || l.flying[s.queue] > 0 || l.gathers(s.queue) {
			continue
		}
		l.countEmpty(s)
		switch {
		case s.queue.Ring > 0 && s.inHand == 0:
			l.release(s)
		case s.queue.Ring == 0 && l.turnOver(s) && s.settled():
			l.closeTurn(s)
		}
	}
}

// settled reports whether nothing of a slot is in hand but changes, which are kept until its turn
// is over.
func (s *slot) settled() bool {
	return s.inHand == len(s.kept) && !slices.ContainsFunc(s.kept, func(p *parcel) bool { return p.left > len(p.kept) })
}

// turnOver reports whether a turn of the first ring is over, and its changes are needed no more.
func (l *Leader) turnOver(s *slot) bool {
	over := s.until.Add(l.rings[0].Linger)
	if l.now.Clock.Earliest.Before(over) || s.items > 0 || !l.complete(s.turn) {
		return false
	}
	// A copy that was stored by then may be in the log, if this process stood still; or in a slot that
	// has taken it for another.
	if s.tickets && l.marks.back.Before(over) || l.awaits(s.until) {
		return false
	}
	if len(s.kept) == 0 {
		return true
	}
	// A message for which there are changes must not come again, nor come here from an earlier time:
	// all acknowledgements that are older than a mark by so much are stored, and those of what is
	// released.
	settled := func(of *slot) bool { return l.marks.backMono >= of.done+outlives }
	end := l.rings.end(s.turn)
	for _, other := range l.order {
		switch {
		case other == s, !other.from.Before(s.until):
		case l.rings.begin(other.turn).Before(end), other.items > 0, len(other.awaits) > 0, !settled(other):
			return false
		}
	}
	return settled(s)
}

// awaits reports whether something that is due before then was written to open slots, and has not
// come back.
func (l *Leader) awaits(then time.Time) bool {
	for _, s := range l.order {
		for _, due := range s.awaits {
			if due.Time().Before(then) {
				return true
			}
		}
	}
	return false
}

// missed surrenders if the mark of a slot does not come back though it is stored, or bundles do not
// that were written behind it. Somebody may have purged the slot, or deleted it and declared it
// again, of which RabbitMQ does not tell its consumer.
func (l *Leader) missed(s *slot) {
	wants := !s.drained || len(s.awaits) > 0
	if wants && s.consumed && !s.releasing && !l.full(s.source) && l.writes[s.tail] == nil && l.now.Mono-s.last > missedAfter {
		l.surrender("a slot does not deliver")
	}
}

// closeTurn ends a turn: what is known of its messages is forgotten.
func (l *Leader) closeTurn(s *slot) {
	for _, p := range s.kept {
		for range p.kept {
			l.finish(p)
		}
	}
	for _, e := range s.entries {
		e.slot = nil
		if e.drop || e.done && len(e.next) > 0 {
			l.dropped[e.key] = true
		}
		if e.passing == 0 {
			delete(l.entries, e.key)
		}
	}
	s.entries = nil
	l.release(s)
}
