// Package leader turns the wheel: it reads the log, writes slots, reads them shortly before their
// turn, and delivers what is due. docs/design.md tells the protocol.
//
// A [Leader] is one tenure of one candidate, from when its channel on the log is open until that is
// lost. It is pure: [Leader.Step] takes what has happened, with the time, and returns what is to be
// done. So a simulator can run it against a model of a broker.
package leader

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/acks"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// Config is what a leader must know.
type Config struct {
	Rings  Rings
	Tenure string // names this tenure, and no other ever
	// Prefetch is how many bundles of the log may be in hand. 0: LogPrefetch. Of a slot of the first
	// ring it is 256 at most; of others a quarter of that, and 8 at least. It cannot change in a
	// tenure: another consumer of the log would be another leader.
	Prefetch int
	// Memory is how many bytes of records may be held; 0: any number. If there are more, the leader
	// surrenders for Overfull, unless Prefetch is LeastPrefetch or less.
	Memory int
}

const (
	// LogPrefetch is the usual Config.Prefetch. A bundle is in hand until the last of its records
	// that are due soon is delivered: at 10,000 messages a second these are 500 bundles. If the log
	// is full, what is held is written to slots, which makes others late.
	LogPrefetch  = 1024
	slotPrefetch = 256
	// LeastPrefetch is how many there must be at least: the newest mark is one of them, and what
	// waits for the next mark must not keep that away.
	LeastPrefetch = 4

	// near is how soon a record of the log is due that is held in memory, not written to a slot.
	near = 2 * time.Second
	// setClock is by how much the broker's clock may disagree with what was known of it, and
	// setBack how much earlier it may show without that marks count no more.
	setClock = 10 * time.Second
	setBack  = 200 * time.Millisecond
)

// A Leader is one tenure. The zero value is not ready: use [New].
type Leader struct {
	cfg    Config
	rings  Rings
	now    Now
	out    []Effect
	events []Event // that wait until the broker's time is known, and the last snapshot

	leading, over bool
	began, leads  time.Duration // since when it is a candidate, and the leader
	told          Now           // when what changes slowly was last looked at,
	clocked       Now           // and when the broker's time was last known, then
	ownBegan      int64         // what the broker's clock showed when that of this process began, at most, in ms
	heard         time.Duration // when the broker last answered anything that was published

	log     *source
	place   int64           // of the last record of the log
	slots   map[Queue]*slot // that are consumed
	order   []*slot         // the same, so that a run can be repeated
	peeks   []Queue         // whose head is to be looked at,
	peeking int             // and is being looked at
	read    []int64         // by ring: the last turn that was opened
	marks   marks

	entries map[key]*entry
	waiting byDue
	waits   []*Item // due, and not certain yet, in the order in which they were due
	dests   map[string]*destination

	dropped       map[key]bool // or postponed, in earlier turns, since droppedSince,
	droppedBefore map[key]bool // and before that
	droppedSince  time.Duration

	runs    map[target]*run
	flushes []*run // the same, the first begun first
	writes  map[uint64]*write
	number  uint64                  // of the last write
	flying  map[Queue]int           // unconfirmed writes to a queue
	silent  map[Queue]time.Duration // that have not confirmed one for long: until when they are left alone
	empty   map[Queue]time.Duration // slots in which nothing is: when that was found
	known   known                   // of what waits
	recheck bool                    // something has come that may make certain what waits
	Stats   Stats
}

// Stats tell what a leader holds, and has done.
type Stats struct {
	Held  int // records in memory
	Bytes int // of them
}

// A key names a message at one of its due times: a change for another of them is not for this.
type key struct {
	id  string
	due brokertime.Due
}

// New returns a leader. The log is consumed already. It leads when something comes from there.
func New(cfg Config, now Now) *Leader {
	cfg.Prefetch = cmp.Or(cfg.Prefetch, LogPrefetch)
	l := &Leader{
		cfg: cfg, rings: cfg.Rings, now: now, began: now.Mono, told: now,
		log: newSource(Log, 0), slots: map[Queue]*slot{}, read: make([]int64, len(cfg.Rings)),
		entries: map[key]*entry{}, dropped: map[key]bool{}, dests: map[string]*destination{},
		runs: map[target]*run{}, writes: map[uint64]*write{}, flying: map[Queue]int{},
		silent: map[Queue]time.Duration{}, empty: map[Queue]time.Duration{}, known: newKnown(cfg.Rings),
	}
	l.marks.wrote = -markEvery
	return l
}

// Leads reports whether this process turns the wheel.
func (l *Leader) Leads() bool { return l.leading && !l.over }

// Rests reports whether nothing is in hand, and nothing under way.
func (l *Leader) Rests() bool {
	for _, s := range l.order {
		if s.inHand > 0 || s.releasing || s.peeked || !s.drained || s.items > 0 || len(s.kept)+len(s.awaits) > 0 {
			return false
		}
	}
	return l.Stats.Held+len(l.writes)+len(l.marks.sent)+len(l.peeks)+l.peeking+len(l.flushes)+len(l.dests)+len(l.events) == 0
}

// Step takes an event, and returns what is to be done, and when the next Tick is due at the latest.
// The effects are valid until the next Step.
func (l *Leader) Step(now Now, e Event) (todo []Effect, next time.Duration) {
	l.out = l.out[:0]
	if l.over {
		if e, is := e.(Sent); is && e.Stored {
			l.sent(e) // so that Flush acknowledges it. Nothing else is done any more
		}
		return nil, now.Mono + time.Hour
	}
	l.now = now
	switch e := e.(type) {
	case Tick:
	case Recalled:
		l.recalled(e)
	case Written, Sent, Kept:
		l.hear()
		l.events = append(l.events, e)
	case Delivered:
		e.came = now.Mono
		l.events = append(l.events, e)
	default:
		l.events = append(l.events, e)
	}
	l.takeEvents()
	next = l.tick()
	return l.out, next
}

// takeEvents takes events in their order, once the broker's time is known, and the last snapshot.
func (l *Leader) takeEvents() {
	taken := 0
	for taken < len(l.events) && l.now.Known && l.known.asked == 0 && !l.over {
		e := l.events[taken]
		if d, is := e.(Delivered); is && d.Queue == Log && !l.leading {
			l.lead()
			break
		}
		taken++
		switch e := e.(type) {
		case Delivered:
			l.delivered(e)
		case Written:
			l.written(e)
		case Sent:
			l.sent(e)
		case Released:
			l.released(e.Queue)
		case Kept:
			l.known.writing = false
		}
	}
	l.events = slices.Delete(l.events, 0, taken)
}

// Overfull is why a leader surrenders that holds more than Config.Memory. The next tenure is to
// consume with a quarter of the prefetch.
const Overfull = "it holds too much"

func (l *Leader) do(e Effect) { l.out = append(l.out, e) }

func (l *Leader) surrender(why string) {
	if !l.over {
		l.over = true
		l.do(Surrender{why})
	}
}

// A source is a queue that is consumed.
type source struct {
	queue  Queue
	acks   acks.Acks
	inHand int           // bundles that are not finished
	last   time.Duration // when one came, or was acknowledged
	hand   bundle.Count  // their records
}

func newSource(q Queue, now time.Duration) *source {
	return &source{queue: q, acks: acks.New(1), last: now}
}

// A parcel is a bundle in hand. It is acknowledged when none of its records is left.
type parcel struct {
	from *source
	tag  uint64
	left int
	kept []*Item // of those, changes that are kept until the turn is over

	progress bundle.Progress
}

// finish ends one record of a parcel.
func (l *Leader) finish(p *parcel) {
	if p.left--; p.left > 0 {
		return
	}
	delete(l.known.partial, p)
	p.from.inHand--
	p.from.last = l.now.Mono
	p.from.acks.Done(p.tag, l.now.Mono)
}

// delivered takes a bundle.
func (l *Leader) delivered(d Delivered) {
	var s *slot
	from := l.log
	if d.Queue != Log {
		if s = l.slots[d.Queue]; s == nil || s.releasing {
			return // it goes back
		}
		from = s.source
	}
	if b := d.Bundle; s != nil && b != nil && b.Writer == l.cfg.Tenure {
		delete(s.awaits, b.Number)
		if w := l.writes[b.Number]; w != nil {
			l.countWritten(w)
		}
	}
	from.inHand++
	from.last = l.now.Mono
	p := &parcel{from: from, tag: d.Tag, left: 1}
	switch b := d.Bundle; {
	case errors.Is(d.Err, bundle.ErrNewer):
		l.surrender(fmt.Sprintf("a bundle cannot be read: %v", d.Err))
	case b == nil:
		if s != nil {
			l.known.of(d.Queue).Exact = false
		}
		l.do(Deliver{&Item{parcels: []part{{p, -1}}, Raw: d.Raw}})
	case b.Records[0].Kind == bundle.Mark:
		l.marked(s, p, d)
	case s != nil && s.peeked:
		l.looked(s, b)
	default:
		if s != nil {
			l.countRead(d.Queue, b)
		}
		l.recallProgress(p, b)
		p.left = len(b.Records) + 1
		waited := l.now.Mono - d.came // for the broker's time
		waited -= waited / brokertime.DriftEvery
		for i := range b.Records {
			if p.progress.Is(i) {
				l.finish(p)
				continue
			}
			it := &Item{Record: b.Records[i], parcels: []part{{p, i}}, own: d.Own || b.Writer == l.cfg.Tenure}
			if it.Due == 0 {
				it.Left -= waited
			}
			l.take(it)
		}
		l.finish(p)
	}
	if l.cfg.Memory > 0 && l.Stats.Bytes > l.cfg.Memory && l.cfg.Prefetch > LeastPrefetch {
		l.surrender(Overfull)
	}
}

// lead begins to lead: what earlier leaders have left is looked for.
func (l *Leader) lead() {
	l.leading, l.leads = true, l.now.Mono
	l.known.asked = max(l.now.Mono, 1) // until the last snapshot has come nothing else is done
	l.do(Recall{})
	l.peeks = l.rings.Slots()
	l.marks.wrote = -markEvery
}
