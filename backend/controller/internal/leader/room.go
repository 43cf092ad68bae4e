package leader

import (
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// makeRoom writes messages to slots that keep away what is behind them: those that fill a queue
// before its mark has come, which is then before them, and those for destinations that do not
// answer.
func (l *Leader) makeRoom() {
	stalled := func(from *source) bool { return l.full(from) && l.now.Mono-from.last >= slowTick }
	if stalled(l.log) {
		l.spill(l.log)
	}
	for _, s := range l.order {
		if s.open() && len(s.kept) > l.most(s.source)/2 {
			l.compact(s)
		}
		if s.open() && stalled(s.source) {
			l.spill(s.source)
		}
	}
}

// most is how many bundles of a queue may be in hand.
func (l *Leader) most(from *source) int {
	switch slots := min(l.cfg.Prefetch, slotPrefetch); from.queue.Ring {
	case Log.Ring:
		return l.cfg.Prefetch
	case 0:
		return slots
	default:
		return max(2*LeastPrefetch, slots/4)
	}
}

// full reports whether nothing more comes from a queue before something is acknowledged.
func (l *Leader) full(from *source) bool {
	return from.inHand+from.acks.Waiting() >= l.most(from)
}

// spill makes room in one queue.
func (l *Leader) spill(from *source) {
	of := func(p part) bool { return p.from == from }
	var all []*Item
	for _, e := range l.entries {
		if e.item != nil && slices.ContainsFunc(e.item.parcels, of) {
			all = append(all, e.item)
		}
	}
	slices.SortFunc(all, inOrder)
	drained := from != l.log && l.slots[from.queue].drained
	for _, it := range all {
		switch {
		case it.flying:
			l.unpin(it)
		case it.held && !drained:
			it.held, it.entry.item, it.entry = false, nil, nil
			l.gather(it)
		}
	}
}

// compact writes the changes of a turn to its slot again, in fewer bundles: they stay in hand, and
// keep away what is behind them.
func (l *Leader) compact(s *slot) {
	bytes := 0
	for _, p := range s.kept {
		for _, it := range p.kept {
			bytes += it.Size()
		}
	}
	if fewer := 1 + bytes/bundle.MaxSize; 2*fewer > len(s.kept) {
		return
	}
	for _, p := range s.kept {
		for _, it := range p.kept {
			l.count(it, 1)
			it.entry.passing++
			l.gather(it)
		}
		p.kept = nil
	}
	s.kept = nil
}

// ackWithin is how long what is done waits for what came before it.
const ackWithin = 250 * time.Millisecond

// Flush returns the acknowledgements of all that is done, and a last Snapshot: the tenure ends.
func (l *Leader) Flush() []Effect {
	l.out = l.out[:0]
	for _, s := range append([]*slot{{source: l.log}}, l.order...) {
		l.flush(s.source, true)
	}
	if l.known.counted >= 0 {
		l.do(Snapshot{l.counts()})
	}
	return l.out
}

// flush acknowledges what is done.
func (l *Leader) flush(from *source, all bool) {
	if tag := from.acks.UpTo(); tag != 0 {
		l.do(Ack{from.queue, tag, true})
	}
	if from.acks.Waiting() == 0 {
		return
	}
	within := ackWithin
	if all || l.full(from) {
		within = -time.Hour
	}
	for _, tag := range from.acks.Overdue(l.now.Mono, within) {
		l.do(Ack{from.queue, tag, false})
	}
}
