package leader

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// known is what a leader knows of what waits, and what the one before it knew.
type known struct {
	counts [][]bundle.TurnCount // by ring and slot: of what is in the queue and not in hand

	partial   map[*parcel]bool // bundles of which some records are finished
	inherited map[name]*bundle.Progress
	asked     time.Duration // when the last snapshot was asked for; 0: it has come
	written   map[Queue]bool

	counted  time.Duration // when the last snapshot was written
	changed  bool          // since then
	finished int           // messages that were delivered since the last snapshot
	writing  bool          // that is not stored yet
}

// A name is that of a bundle: each has one of its own.
type name struct {
	writer string
	number uint64
}

const (
	// knownEvery is how often a snapshot is written while something changes. One is written at once
	// when progressEvery messages were delivered whose bundles may be in hand: so many, and those
	// that are being delivered, come twice if the leader is lost.
	knownEvery    = time.Second
	progressEvery = 200
	// inheritedFor is how long progress is kept of bundles that have not come.
	inheritedFor = 5 * time.Minute
)

func newKnown(rings Rings) known {
	k := known{counted: -markIdle, partial: map[*parcel]bool{}, inherited: map[name]*bundle.Progress{}, written: map[Queue]bool{}}
	for ring := range rings {
		k.counts = append(k.counts, make([]bundle.TurnCount, rings[ring].Slots))
		for i := range k.counts[ring] {
			k.counts[ring][i].Turn = bundle.Turn{Level: ring, Number: int64(i)}
		}
	}
	return k
}

// of is the count of a slot.
func (k *known) of(q Queue) *bundle.TurnCount { return &k.counts[q.Ring][q.Index] }

// recalled takes the snapshot of the leader before. A count is still exact if its slot has as many
// bundles as then, and was not open, then or since: only leaders write there, so what is not open
// only grows.
func (l *Leader) recalled(e Recalled) {
	if l.known.asked == 0 {
		return
	}
	l.known.asked = 0
	if e.Counts != nil {
		for _, c := range e.Counts.Turns {
			if !l.rings.valid(c.Turn) {
				continue
			}
			q := l.rings.Slot(c.Turn)
			bundles, is := e.Bundles[q]
			opens := l.rings.Opens(c.Turn).Add(-setClock)
			closed := l.now.Known && opens.After(l.now.Clock.Latest) && e.Counts.At != 0 && opens.After(e.Counts.At.Time())
			c.Exact = c.Exact && !c.Open && closed && is && bundles == c.Bundles && (c.First > 0 || c.Messages == 0)
			c.Open = false
			*l.known.of(q) = c
		}
		for _, p := range e.Counts.Progress {
			l.known.inherited[name{p.Writer, p.Number}] = &p
		}
	}
}

// recallProgress gives a parcel what is known of its records.
func (l *Leader) recallProgress(p *parcel, b *bundle.Bundle) {
	n := name{b.Writer, b.Number}
	p.progress = bundle.Progress{Writer: b.Writer, Number: b.Number, Records: len(b.Records)}
	if known := l.known.inherited[n]; known != nil && known.Records == len(b.Records) {
		p.progress, l.known.partial[p] = *known, true
		p.progress.Done = slices.Clone(known.Done)
		delete(l.known.inherited, n)
	}
}

// countWritten counts a bundle that is stored: that has come back, or is confirmed. Before the first
// that a tenure writes to a slot there is a mark of nobody.
func (l *Leader) countWritten(w *write) {
	if w.to == Log || w.counted {
		return
	}
	c := l.known.of(w.to)
	l.known.changed, w.counted = true, true
	c.Bundles++
	if !l.known.written[w.to] {
		l.known.written[w.to] = true
		c.Bundles++
	}
	switch {
	case w.abandoned: // its records are elsewhere too
		c.Exact = false
	case len(w.items) > 0:
		c.Turn = w.turn
		for _, it := range w.items {
			include(&c.Count, &it.Record)
		}
	}
}

// count counts a record that comes into memory, or leaves it.
func (l *Leader) count(it *Item, by int) {
	l.known.changed = true
	l.Stats.Held += by
	l.Stats.Bytes += by * it.Size()
	hand := &it.from().hand
	switch {
	case by > 0:
		include(hand, &it.Record)
	case it.Kind == bundle.Message:
		hand.Messages--
	default:
		hand.Changes--
	}
}

// include counts a record.
func include(c *bundle.Count, r *bundle.Record) {
	if r.Kind != bundle.Message {
		c.Changes++
		return
	}
	if c.Messages <= 0 {
		c.First, c.Last = r.Due, r.Due
	}
	if c.First > 0 { // else they are not known
		c.First, c.Last = min(c.First, r.Due), max(c.Last, r.Due)
	}
	c.Messages++
}

// countRead counts a bundle that came from a slot.
func (l *Leader) countRead(q Queue, b *bundle.Bundle) {
	l.known.changed = true
	c := l.known.of(q)
	c.Bundles--
	for i := range b.Records {
		switch b.Records[i].Kind {
		case bundle.Message:
			c.Messages--
		case bundle.Cancel, bundle.Postpone:
			c.Changes--
		}
	}
}

// countEmpty notes that nothing is in a slot. What was counted there by a leader that was lost is
// forgotten.
func (l *Leader) countEmpty(s *slot) {
	c, empty := l.known.of(s.queue), bundle.TurnCount{Turn: s.turn, Count: bundle.Count{Exact: true}}
	l.known.changed = l.known.changed || *c != empty
	*c = empty
}

// tellKnown writes a snapshot if it is time.
func (l *Leader) tellKnown() {
	k := &l.known
	since := l.now.Mono - k.counted
	wanted := k.changed && since >= knownEvery || since >= markIdle || k.finished >= progressEvery
	if !wanted || !l.leading || l.over || !l.told.Known || len(l.events) > 0 || k.writing {
		return
	}
	k.counted, k.changed, k.finished, k.writing = l.now.Mono, false, 0, true
	l.do(Snapshot{l.counts()})
}

// counts are what is known.
func (l *Leader) counts() *bundle.Counts {
	// When a clock was set, the next leader must not take an open slot for one that opens later.
	c := &bundle.Counts{At: brokertime.Due(l.told.Clock.Earliest.UnixMilli()), Progress: l.progress()}
	c.Held = l.log.hand
	c.Held.Bundles, c.Held.Exact = l.log.inHand, true
	if c.Held.First = min(max(c.Held.First, c.At), c.Held.Last); c.Held.Messages == 0 { // the first may be delivered
		c.Held.First, c.Held.Last = 0, 0
	}
	for ring, turns := range l.known.counts {
		for i, t := range turns {
			if s := l.slots[Queue{ring, i}]; s != nil {
				t.Turn, t.Open, t.Bundles = s.turn, true, max(t.Bundles, 0)+s.inHand
				t.Messages += s.hand.Messages
				t.Changes += s.hand.Changes
				t.First, t.Last = 0, 0
			}
			// A bundle that came before its confirm makes a count negative for a moment.
			t.Bundles, t.Messages, t.Changes = max(t.Bundles, 0), max(t.Messages, 0), max(t.Changes, 0)
			if t.Messages == 0 {
				t.First, t.Last = 0, 0
			}
			if t.Bundles+t.Messages > 0 || !t.Exact {
				c.Turns = append(c.Turns, t)
			}
		}
	}
	return c
}

// progress is that of the bundles in hand, and of those of earlier leaders that have not come.
func (l *Leader) progress() (all []bundle.Progress) {
	for p := range l.known.partial {
		told := p.progress
		told.Done = slices.Clone(told.Done)
		all = append(all, told)
	}
	for p := range maps.Values(l.known.inherited) {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b bundle.Progress) int {
		return cmp.Or(cmp.Compare(a.Writer, b.Writer), cmp.Compare(a.Number, b.Number))
	})
	return all
}
