package leader

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// An Item is a record in hand.
type Item struct {
	bundle.Record
	parcels []part // of the bundles that have it: several if there are copies
	own     bool   // Own is by the clock of this process
	made    *Item  // of a change that this leader has made, which is in none of the bundles: the message that it is for
	behind  int    // changes that must be stored before the message is written

	entry   *entry
	slot    *slot          // in whose turn it is held
	early   brokertime.Due // when to look at it: its due time, or a little before
	held    bool           // it waits in memory to be due
	overdue time.Duration  // since when it is due, and not certain
	decided bool           // it is certain that it is delivered
	flying  bool           // it is being delivered
	dest    *destination

	Raw any // of a bundle that is not ours: that of its Delivered
}

// A part is a record of a parcel; -1: it is not told which are finished.
type part struct {
	*parcel
	record int
}

// An entry is what is known of a message at a due time, from when something of it is in memory
// until its turn is over.
type entry struct {
	key  key
	slot *slot // of the turn, once that is open
	item *Item // in hand
	once bool  // it has a ticket: copies of it are not delivered
	done bool  // it was delivered, dropped or moved to another due time: copies are dropped

	drop    bool             // a Cancel says so
	next    []brokertime.Due // the due times that Postpones give it, the first first
	passing int              // changes that are on their way to a slot
}

// rememberedFor is for how long after its turn it is known, at least, that a message was dropped or
// postponed. A publisher's bundle may be on its way for so long.
const rememberedFor = 2 * time.Minute

// entry returns the entry of a message, which it makes if there is none.
func (l *Leader) entry(k key) *entry {
	e := l.entries[k]
	if e == nil {
		e = &entry{key: k}
		l.entries[k] = e
		l.adopt(e)
	}
	return e
}

// adopt gives an entry to its turn, if that is open.
func (l *Leader) adopt(e *entry) {
	if s := l.turnOf(e.key.due); s != nil && e.slot == nil {
		e.slot = s
		s.entries, s.tickets = append(s.entries, e), s.tickets || e.once
		s.covers(e.key.due)
	}
}

// forget deletes an entry that nobody needs: its turn is not open.
func (l *Leader) forget(e *entry) {
	if e.slot == nil {
		l.adopt(e)
	}
	if e.slot == nil && e.item == nil && e.passing == 0 {
		delete(l.entries, e.key)
	}
}

// take takes a record.
func (l *Leader) take(it *Item) {
	if it.from() == l.log {
		// Those of a later leader are higher: they begin with the broker's time in µs.
		l.place = max(l.place+1, l.now.Clock.Latest.UnixMicro())
		it.At = l.place
	}
	l.count(it, 1)
	switch it.Kind {
	case bundle.Message:
		l.takeMessage(it)
	case bundle.Cancel, bundle.Postpone:
		l.takeChange(it)
	default:
		l.finishItem(it) // a mark among other records
	}
}

func (it *Item) from() *source { return it.parcels[0].from }

// finishItem ends a record: it is delivered, stored elsewhere or dropped.
func (l *Leader) finishItem(it *Item) {
	l.count(it, -1)
	for _, p := range it.parcels {
		if p.left > 1 && p.record >= 0 {
			p.progress.Set(p.record)
			l.known.partial[p.parcel] = true
		}
		l.finish(p.parcel)
	}
	it.parcels = nil
	l.leave(it)
}

// leave notes that a message is in hand for its turn no more.
func (l *Leader) leave(it *Item) {
	if s := it.slot; s != nil {
		s.items--
		s.done = l.now.Mono
		it.slot = nil
	}
}

// reckon is the due time of what has so long to wait.
func (n Now) reckon(left time.Duration) brokertime.Due {
	due := n.Clock.Latest.Add(left)
	if due.Nanosecond()%int(time.Millisecond) != 0 {
		due = due.Add(time.Millisecond)
	}
	return brokertime.Due(due.UnixMilli())
}

// ownFor is the longest delay that a process counts by its own clock too: for so long it differs from
// the broker's by no more than 200 ms, if one of them gains 200 ppm.
const ownFor = 15 * time.Minute

// Enter gives a message that has so long to wait its times. The process that writes the message counts
// by its own clock too, which is exact, in case that it leads.
func Enter(now Now, delay time.Duration) (due brokertime.Due, left, own time.Duration) {
	if !now.Known {
		return 0, delay, now.Mono + delay
	}
	if delay <= ownFor {
		own = now.Mono + delay
	}
	return now.reckon(delay), 0, own
}

// takeMessage takes a message.
func (l *Leader) takeMessage(it *Item) {
	if it.Due == 0 {
		if it.own && it.Own != 0 {
			it.Left = it.Own - l.now.Mono
		}
		it.Due, it.Left = l.now.reckon(max(0, it.Left)), 0
	}
	l.put(it)
}

// put finds a place for a message of which nothing is known yet: in memory, or in a slot.
func (l *Leader) put(it *Item) {
	k := key{it.ID, it.Due}
	e := l.entries[k]
	switch {
	case e != nil && e.item != nil:
		l.join(e.item, it)
	case e != nil && (e.drop || e.done):
		e.done = true
		l.finishItem(it)
	case it.Ticket && (l.dropped[k] || l.droppedBefore[k]):
		l.finishItem(it)
	case l.holds(it):
		l.hold(it)
	default:
		l.gather(it)
	}
}

// join takes a copy of a message in hand for the same message, whose place is that of the older.
func (l *Leader) join(it, other *Item) {
	l.count(other, -1)
	it.parcels = append(it.parcels, other.parcels...)
	if it.slot == nil {
		it.slot, other.slot = other.slot, nil
	}
	l.leave(other)
	if !it.held || other.At >= it.At || it.overdue > 0 {
		return
	}
	it.held = false // and what takes its place is found in order
	again := *it
	again.held, again.At, it.entry.item = true, other.At, &again
	heap.Push(&l.waiting, &again)
}

// holds reports whether a message waits in memory until it is due: if that is soon, or it comes
// from the slot of its turn.
func (l *Leader) holds(it *Item) bool {
	s := l.turnFor(it)
	return it.Due.Time().Sub(l.now.Clock.Earliest) <= near || s != nil && s.source == it.from()
}

// hold holds a message in memory until it is due.
func (l *Leader) hold(it *Item) {
	e := l.entry(key{it.ID, it.Due})
	e.item, it.entry, it.held = it, e, true
	e.once = e.once || it.Ticket
	if s := e.slot; s != nil {
		if it.slot == nil {
			it.slot = s
			s.items++
		}
		s.tickets = s.tickets || e.once
	}
	if began := l.now.Clock.Earliest.UnixMilli() - l.now.Mono.Milliseconds(); began > l.ownBegan {
		// What is known of the broker's clock got more exact.
		l.ownBegan = began
		for _, other := range l.waiting {
			other.early = l.earliest(other)
		}
		heap.Init(&l.waiting)
	}
	it.early = l.earliest(it)
	heap.Push(&l.waiting, it)
}

// earliest is when the time of a message comes by the broker's clock, at the earliest.
func (l *Leader) earliest(it *Item) brokertime.Due {
	if it.own && it.Own != 0 {
		return min(it.Due, brokertime.Due(l.ownBegan+it.Own.Milliseconds()))
	}
	return it.Due
}

// takeChange notes what a change says. It stays with its turn if that is open and the change comes
// from its slot. Else it goes there: a message that comes from a slot must not outlive it.
func (l *Leader) takeChange(it *Item) {
	e := l.entry(key{it.ID, it.Due})
	it.entry = e
	if it.Kind == bundle.Cancel {
		e.drop = true
	} else if at, is := slices.BinarySearch(e.next, it.Next); !is && it.Next > it.Due {
		e.next = slices.Insert(e.next, at, it.Next)
	}
	stays := it.made == nil && e.slot != nil && it.from() == e.slot.source
	if !stays {
		e.passing++
	}
	if e.drop && e.item != nil && !e.item.decided {
		l.drop(e)
	}
	if !stays {
		l.gather(it)
		return
	}
	p := it.parcels[0].parcel
	if p.kept = append(p.kept, it); len(p.kept) == 1 {
		e.slot.kept = append(e.slot.kept, p)
	}
	l.count(it, -1)
}

// drop drops a message in hand.
func (l *Leader) drop(e *entry) {
	it := e.item
	if !it.held {
		return // it is being written or delivered
	}
	e.item, e.done, it.held = nil, true, false
	l.finishItem(it)
	l.forget(e)
}

func inOrder(a, b *Item) int {
	return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
}

// byDue is a heap of the items that wait, the first due on top; of those that are due together the
// older.
type byDue []*Item

func (h byDue) Len() int       { return len(h) }
func (h byDue) Swap(i, j int)  { h[i], h[j] = h[j], h[i] }
func (h *byDue) Push(item any) { *h = append(*h, item.(*Item)) }

func (h byDue) Less(i, j int) bool {
	return h[i].early < h[j].early || h[i].early == h[j].early && h[i].At < h[j].At
}

func (h *byDue) Pop() any {
	last := len(*h) - 1
	it := (*h)[last]
	*h = slices.Delete(*h, last, last+1)
	return it
}
