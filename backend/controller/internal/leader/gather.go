package leader

import (
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// A run is what is gathered for one queue, to be written there together. It has messages or
// changes: a bundle of changes stays in hand when those of messages are done with.
type run struct {
	target
	items []*Item
	bytes int
	since time.Duration
}

// A target is where a run goes.
type target struct {
	queue   Queue
	turn    bundle.Turn
	changes bool
}

// A write is a bundle that is not confirmed.
type write struct {
	id        uint64
	to        Queue
	turn      bundle.Turn
	items     []*Item // none: it is a mark
	since     time.Duration
	abandoned bool // its items are written elsewhere
	counted   bool
}

const (
	// gatherFor is how long a run is gathered, gatherOpen one for a slot that is open.
	gatherFor, gatherOpen = 500 * time.Millisecond, 50 * time.Millisecond
	// mostFlying is how many bundles for a queue may be unconfirmed. If a quorum queue has 32 of
	// one channel that it has not stored, RabbitMQ soon stops reading the connection.
	mostFlyingWrites = 16
	// silentAfter is how long a queue may take to confirm a bundle, silentFor how long it is left
	// alone then.
	silentAfter, silentFor = 5 * time.Second, 10 * time.Second
	// refusedFor is how long it is left alone after it has refused one.
	refusedFor = time.Second
)

// gather adds a record to the run of its slot.
func (l *Leader) gather(it *Item) {
	t := l.targetOf(it)
	r := l.runs[t]
	if r == nil {
		r = &run{target: t, since: l.now.Mono}
		l.runs[t] = r
		l.flushes = append(l.flushes, r)
	}
	size := it.Size()
	if !bundle.Fits(r.bytes, size) && l.flying[t.queue] < mostFlyingWrites && l.right(r) {
		l.flushRun(r)
		l.gather(it)
		return
	}
	r.items = append(r.items, it)
	r.bytes += size
}

// targetOf is where a record goes: the slot of its due time; if that does not answer, or is still
// in use for an earlier turn, the last one before it that does. If there is none the record waits
// in memory for the first.
func (l *Leader) targetOf(it *Item) target {
	due, changes := it.Due.Time(), it.Kind != bundle.Message
	t := l.rings.place(l.now.Clock.Earliest, due)
	if s := l.turnFor(it); s != nil {
		t = s.turn
	}
	for t.Level > 0 && t.Number <= l.read[t.Level] { // that slot has been read
		t = l.rings.at(t.Level-1, due)
	}
	first := target{l.rings.Slot(t), t, changes}
	if l.writable(first.queue, t) {
		return first
	}
	for ring := t.Level; ring >= 0; ring-- {
		if within := l.now.Clock.Earliest.Add(l.rings[ring].Reach); within.Before(due) {
			due = within
		}
		for t := l.rings.at(ring, due); t.Number > l.read[ring]; t.Number-- {
			if q := l.rings.Slot(t); l.writable(q, t) {
				return target{q, t, changes}
			}
		}
	}
	return first
}

// writable reports whether a slot may be written for a turn: it is open for this turn, or will be.
func (l *Leader) writable(q Queue, t bundle.Turn) bool {
	switch s := l.slots[q]; {
	case l.silent[q] > l.now.Mono:
		return false
	case s == nil:
		return t.Number > l.read[t.Level]
	default:
		return s.open() && s.turn == t && q.Ring == 0
	}
}

// right reports whether a run may be written where it goes. If that slot was opened meanwhile, all
// of it must be of its turn: nobody looks for anything else there any more.
func (l *Leader) right(r *run) bool {
	s := l.slots[r.queue]
	return l.writable(r.queue, r.turn) && (s == nil || !slices.ContainsFunc(r.items, func(it *Item) bool { return l.turnFor(it) != s }))
}

// gathers reports whether something is being gathered for a queue.
func (l *Leader) gathers(q Queue) bool {
	return slices.ContainsFunc(l.flushes, func(r *run) bool { return r.queue == q })
}

// flushRuns writes the runs whose time has come: at once if what they have keeps away more.
func (l *Leader) flushRuns() {
	full := l.full(l.log) || slices.ContainsFunc(l.order, func(s *slot) bool { return s.open() && l.full(s.source) })
	for _, r := range slices.Clone(l.flushes) {
		if l.runs[r.target] != r {
			continue // it is written meanwhile
		}
		within, age := gatherFor, l.now.Mono-r.since
		switch {
		case full: // what is in hand keeps away what is behind it
			within = 0
		case l.slots[r.queue] != nil:
			within = gatherOpen
		}
		switch {
		case age < within || l.flying[r.queue] >= mostFlyingWrites:
		case l.right(r):
			l.flushRun(r)
		case age >= gatherFor: // not sooner: it may be much, and nothing changes so soon
			l.unlist(r)
			l.again(r.items)
		}
	}
}

func (l *Leader) unlist(r *run) {
	delete(l.runs, r.target)
	l.flushes = slices.DeleteFunc(l.flushes, func(other *run) bool { return other == r })
}

// flushRun writes a run, in as many bundles as it takes, or as may be unconfirmed.
func (l *Leader) flushRun(r *run) {
	slices.SortStableFunc(r.items, inOrder)
	for len(r.items) > 0 && l.flying[r.queue] < mostFlyingWrites {
		n, bytes := 0, 0
		b := &bundle.Bundle{InSlot: true, Turn: r.turn}
		for n < len(r.items) && bundle.Fits(bytes, r.items[n].Size()) {
			rec := r.items[n].Record
			if !r.items[n].own {
				rec.Own = 0
			}
			b.Records = append(b.Records, rec)
			bytes += r.items[n].Size()
			n++
		}
		l.write(r.queue, b, r.items[:n:n])
		r.items, r.bytes = r.items[n:], r.bytes-bytes
	}
	if len(r.items) == 0 {
		l.unlist(r)
	}
}

// write writes a bundle.
func (l *Leader) write(to Queue, b *bundle.Bundle, items []*Item) (id uint64) {
	l.number++
	b.Writer, b.Number = l.cfg.Tenure, l.number
	if s := l.slots[to]; s != nil {
		if !s.consumed { // it was known to be empty
			l.consume(s)
		}
		if len(items) > 0 {
			s.covers(items[0].Due) // the first of them
			s.awaits[l.number] = items[0].Due
		}
	}
	delete(l.empty, to)
	l.writes[l.number] = &write{id: l.number, to: to, turn: b.Turn, items: items, since: l.now.Mono}
	l.flying[to]++
	l.do(Write{l.number, to, b})
	return l.number
}

// written notes what became of a bundle.
func (l *Leader) written(e Written) {
	w := l.writes[e.ID]
	if w == nil {
		return
	}
	delete(l.writes, e.ID)
	if l.flying[w.to]--; l.flying[w.to] == 0 {
		delete(l.flying, w.to)
	}
	if s := l.slots[w.to]; s != nil && s.tail == w.id {
		s.last = l.now.Mono
	}
	if e.Stored {
		l.countWritten(w)
	}
	switch {
	case e.Stored && !w.abandoned:
		for _, it := range w.items { // they are in another bundle now
			l.finishItem(it)
			if of := it.entry; of != nil && it.Kind == bundle.Message {
				of.item, of.done = nil, true
				l.forget(of)
			} else if of != nil {
				of.passing--
				l.forget(of)
			}
			if m := it.made; m != nil {
				if m.behind--; m.behind == 0 {
					l.move(m, m.Next)
				}
			}
		}
	case e.Stored: // what it has are copies
	default:
		if s := l.slots[w.to]; s != nil && s.tail == w.id {
			s.tail = 0 // another is written
		} else if s != nil {
			delete(s.awaits, w.id)
		}
		if !w.abandoned {
			l.silent[w.to] = max(l.silent[w.to], l.now.Mono+refusedFor)
			l.again(w.items)
		}
	}
}

// again finds a place for records that were not written. A message that is due soon by now, or has
// a copy in hand, stays in memory.
func (l *Leader) again(items []*Item) {
	for _, it := range items {
		if it.Kind == bundle.Message && it.entry == nil {
			l.put(it)
		} else {
			l.gather(it)
		}
	}
}

// abandon finds writes that are not confirmed: their records go elsewhere. If such a bundle is
// stored later it is skipped.
func (l *Leader) abandon() {
	var late []uint64
	for id, w := range l.writes {
		if !w.abandoned && len(w.items) > 0 && l.now.Mono-w.since > silentAfter {
			late = append(late, id)
		}
	}
	slices.Sort(late)
	for _, id := range late {
		w := l.writes[id]
		w.abandoned = true
		l.silent[w.to] = l.now.Mono + silentFor
		l.again(w.items)
		w.items = nil
	}
}

// move makes a message due at another time.
func (l *Leader) move(it *Item, due brokertime.Due) {
	it.held = false
	it.Due, it.Own = due, 0
	l.gather(it)
}

// postpone moves a message to the first of the times that Postpones of its ticket have given it. It
// goes on from there to the next, so that each of the tickets that they returned can be used. The
// changes that say so are stored before the message: another leader must not find it without them.
func (l *Leader) postpone(it *Item) {
	next := it.entry.next
	it.held, it.Next, it.behind = false, next[0], len(next)-1
	for i, to := range next[1:] {
		change := bundle.Record{Kind: bundle.Postpone, ID: it.ID, Due: next[i], Next: to, At: it.At}
		for i := range it.parcels {
			it.parcels[i].left++
			it.parcels[i].record = -1 // the message is moved, and this may not be stored
		}
		made := &Item{Record: change, parcels: slices.Clone(it.parcels), made: it}
		l.count(made, 1)
		l.takeChange(made)
	}
	if it.behind == 0 {
		l.move(it, it.Next)
	}
}
