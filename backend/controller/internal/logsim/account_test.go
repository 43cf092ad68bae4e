package logsim

import (
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// An account holds what was promised and what came of it.
type account struct {
	w        *world
	records  []*record
	byID     map[string]*record
	order    int
	faults   []fault
	foreign  []*item
	lost     []time.Duration // when what a process had in hand went back: nothing else makes a copy
	problems []string
	stats
}

// stats tell what runs were made of.
type stats struct {
	Published, Delivered, Twice, Cancelled, Postponed, TooLate, Faults, Tenures, Events, Foreign int
	Counts, Exact                                                                                int // of slots, and those that could be checked

	Late       time.Duration // the latest
	LateUnhurt time.Duration // and the latest of those that no fault explains
	Bytes      int64         // most in memory, of the budget
	Simulated  time.Duration
	Skipped    time.Duration // of it, since nothing could happen
}

// add counts a run among others, but for its time: centuries are no Duration.
func (s *stats) add(o stats) {
	s.Published += o.Published
	s.Delivered += o.Delivered
	s.Twice += o.Twice
	s.Cancelled += o.Cancelled
	s.Postponed += o.Postponed
	s.TooLate += o.TooLate
	s.Faults += o.Faults
	s.Tenures += o.Tenures
	s.Events += o.Events
	s.Foreign += o.Foreign
	s.Counts += o.Counts
	s.Exact += o.Exact
	s.Late, s.LateUnhurt, s.Bytes = max(s.Late, o.Late), max(s.LateUnhurt, o.LateUnhurt), max(s.Bytes, o.Bytes)
}

// A fault is something that was broken for a while, for one destination or for all.
type fault struct {
	from, until time.Duration
	excuses     time.Duration // until when something may be late for it
	what        string
	to          int // -1: all
	stalls      bool
}

func (a *account) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	a.problems = append(a.problems, text)
	a.w.trace("account", "PROBLEM", "%s", text)
}

// fault notes that something is broken.
func (a *account) fault(d time.Duration, to int, stalls bool, format string, args ...any) {
	f := fault{a.w.now, a.w.now + d, a.w.now + d, fmt.Sprintf(format, args...), to, stalls}
	a.w.trace("fault", "breaks", "%s for %v", f.what, d)
	a.faults = append(a.faults, f)
	a.Faults++
}

// takenOver is how long another process may take to go on where one has vanished: the broker
// notices that its connections are silent.
const takenOver = silentMost + 5*time.Second

// hurt notes that a process is broken. If another is at work, that is an excuse until it has taken
// over.
func (a *account) hurt(p *process, d time.Duration, stalls bool, what string) {
	a.fault(d, -1, stalls, "%s %s", p.name, what)
	for _, other := range a.w.processes {
		if f := &a.faults[len(a.faults)-1]; other != p && other.healthy() {
			f.excuses = min(f.until, a.w.now+takenOver)
		}
	}
}

// healthy reports whether a process is at work.
func (p *process) healthy() bool {
	for _, c := range p.conns() {
		if c.cut || !c.open {
			return false
		}
	}
	return p.alive && !p.stopped && !p.cut && p.tenure != nil && !p.tenure.over
}

// ended notes that a tenure has ended.
func (a *account) ended(p *process, why string) {
	a.faults = append(a.faults, fault{a.w.now, a.w.now + 3*time.Second, a.w.now + 3*time.Second, p.name + ": " + why, -1, false})
	a.Tenures++
}

// weigh looks at the memory of a leader.
func (a *account) weigh(t *tenure) {
	bytes := int64(t.leader.Stats.Bytes)
	a.Bytes = max(a.Bytes, bytes)
	if most := a.w.plan.memory(); bytes > most {
		a.problem("memory: %d bytes, bound %d", bytes, most)
	}
}

// known checks what a leader says that it knows exactly of slots that it does not read.
func (a *account) known(t *tenure, c *bundle.Counts) {
	if a.w.plan.strangers || a.w.mutant.name != "" && !a.w.mutant.counts || !t.conn.open { // it may have lost the lead
		return
	}
	if c.At == t.counted { // only their progress is new
		return
	}
	t.counted = c.At
	for _, turn := range c.Turns {
		q := a.w.broker.named[a.w.rings.Slot(turn.Turn)]
		a.Counts++
		if !turn.Exact || t.channels[q.name] != nil || t.flying[q.name]+len(q.log.queue) > 0 { // it is read, or changes
			continue
		}
		a.Exact++
		var has bundle.Count
		for _, it := range q.items {
			for _, r := range it.records() {
				if r.Kind == bundle.Message {
					if has.Messages++; has.Messages == 1 {
						has.First, has.Last = r.Due, r.Due
					}
					has.First, has.Last = min(has.First, r.Due), max(has.Last, r.Due)
				}
			}
		}
		if has.Messages != turn.Messages || has.First != turn.First || has.Last != turn.Last {
			a.problem("%s says that %s has %+v, and it has %+v", t.name, name(q.name), turn, has)
		}
	}
}

// given notes that a bundle was given to a leader, stored that it came to the log.
func (a *account) given(it *item) {
	a.each(it, func(r *record) {
		if r.handed == 0 {
			r.handed = a.w.now
		}
	})
}

// received notes that a leader has read a bundle, perhaps long after it was given to that. What has
// no due time waits from now on.
func (a *account) received(it *item) {
	for _, rec := range it.records() {
		if r := a.byID[rec.ID]; r != nil && rec.Kind == bundle.Message && rec.Due == 0 {
			r.last = max(r.last, a.w.clock.after(rec.Left))
			r.drift = (a.w.now - r.called) / drifts
		}
	}
}

func (a *account) stored(it *item) {
	if it.bundle.InSlot || it.byLeader {
		return
	}
	a.each(it, func(r *record) { r.storedAt = a.w.now })
}

// sent looks at the size of a bundle.
func (a *account) sent(it *item) {
	if n := len(it.bundle.Records); n > 1 && len(it.bundle.Bytes()) > bundle.MaxSize {
		a.problem("a bundle of %d records is too large", n)
	}
}

// each calls f for the messages of a bundle.
func (a *account) each(it *item, f func(*record)) {
	for _, rec := range it.records() {
		if r := a.byID[rec.ID]; r != nil && rec.Kind == bundle.Message {
			f(r)
		}
	}
}

func (it *item) records() []bundle.Record {
	if it.bundle == nil {
		return nil
	}
	return it.bundle.Records
}

// delivered notes an arrival at a destination.
func (a *account) delivered(it *item) {
	r := it.of
	d := delivered{a.w.now, it.choice, a.w.clock.forward - r.noticed, it.own, it.asleep}
	r.deliverd = append(r.deliverd, d)
	a.w.trace("account", "delivered", "%s, %v after it was due", r.id(), a.w.now-r.last)
	a.inOrder(r)
	if r.cancelled && !r.stranger {
		a.problem("%s was cancelled, and delivered", r.id())
	}
	if r.written == 0 {
		a.problem("%s was withdrawn, and delivered", r.id())
	}
	a.early(r, d)
}

// cancelled notes that Cancel has returned nil.
func (a *account) cancelled(r *record) {
	r.cancelled = true
	if len(r.deliverd) > 0 && !r.stranger {
		a.problem("%s was delivered, and Cancel returned nil after that", r.id())
	}
}

// inOrder: messages of one publisher with the same due time come in the order in which they were
// written, as long as nothing breaks and memory can hold a turn.
func (a *account) inOrder(r *record) {
	if a.w.plan.faults+a.w.plan.steps+a.w.plan.prefetch > 0 || a.w.plan.strangers {
		return
	}
	for _, other := range a.records {
		if r.order > 0 && !r.own && !other.own && r.perhapsAt+other.perhapsAt == 0 && other.p == r.p && other.at == r.at && other.due == r.due && r.due != 0 && other.to == r.to && other.order > r.order && len(other.deliverd) > 0 && len(r.deliverd) == 1 &&
			len(r.tickets) <= 1 && len(other.tickets) <= 1 {
			a.problem("%s overtook %s", other.id(), r.id())
		}
	}
}

// early judges by the broker's clock, which makes early what waits when it is set forward; what a
// process has counted, by its own, which drifts.
func (a *account) early(r *record, d delivered) {
	by, drift := r.notBefore-a.w.clock.passed(d.choice), r.drift
	if d.own && len(r.tickets) <= 1 {
		drift = (d.choice - r.called) / drifts
	}
	if by > drift+d.forward && !r.stranger {
		a.problem("%s was delivered %v early", r.id(), by)
	}
}

// drifts: the clock of a process gains or loses at most one in so many on the broker's.
const drifts = 5000

// close judges a run.
func (a *account) close() {
	for _, r := range a.records {
		if r.confirmed {
			a.judge(r)
		}
	}
}

func (a *account) judge(r *record) {
	if r.asking > 0 {
		r.perhaps, r.last = true, max(r.last, r.perhapsAt)
	}
	a.Published++
	a.Delivered += min(1, len(r.deliverd))
	switch n := len(r.deliverd); {
	case r.cancelled:
		a.Cancelled++
	case n == 0 && !r.perhaps && !r.stranger:
		a.problem("%s is lost: published at %s, due at %s", r.id(), since(r.called), since(r.last))
	case n > 0 && !r.stranger && !r.perhaps: // else what comes may be a copy that a dead leader has left
		a.late(r, r.deliverd[0].at)
	}
	for _, d := range r.deliverd {
		a.early(r, d)
		if len(r.deliverd) > 1 && d.asleep {
			a.problem("%s was delivered twice, at %s by who had stood still and lost its connection", r.id(), since(d.at))
		}
	}
	if len(r.deliverd) > 1 {
		a.Twice++
		later := max(r.deliverd[0].choice, r.deliverd[1].choice)
		meanwhile := func(at time.Duration) bool { return r.handed <= at && at <= later }                           // by who had it
		if forgotten := r.last + a.w.rings[0].Linger; r.repeated && r.storedAt > min(forgotten, r.deliverd[0].at) { // it was written too late
			return
		}
		silent := func(f fault) bool { return f.to == r.to && f.stalls && r.handed <= f.until && f.from <= later }
		// When something was broken last, before the second copy. If a Postpone is unknown the first
		// may have come before it was read, and the other waits for its time.
		broken := min(later, r.unknownAt)
		for _, at := range a.lost {
			if at <= later {
				broken = max(broken, at)
			}
		}
		for _, f := range a.faults {
			if f.from <= later {
				broken = max(broken, min(later, f.until))
			}
		}
		if later-broken > copiesWithin+a.w.plan.steppedBy && r.due != 0 { // else each leader that read it gave it a due time of its own
			a.problem("%s was delivered twice, at %s and %s: nothing was broken for %v", r.id(), since(r.deliverd[0].at), since(r.deliverd[1].at), later-broken)
		}
		if !slices.ContainsFunc(a.lost, meanwhile) && !slices.ContainsFunc(a.faults, silent) {
			a.problem("%s was delivered twice, at %s and %s, and nobody had lost it", r.id(), since(r.deliverd[0].at), since(r.deliverd[1].at))
		}
	}
}

// copiesWithin is how long after something was broken a second copy may come: a new leader takes at
// once what the last had in hand. Only what nobody knows of comes later.
const copiesWithin = 2 * time.Minute

// inTime is how late a message may be once nothing is broken. Destinations that did not answer
// pause for up to 20 s, some messages for twice that, and are tried again then: for these it is
// inTimeStalled.
const (
	inTime        = 30 * time.Second
	inTimeStalled = 50 * time.Second
)

// late judges how late a message is: not by more than is allowed in any stretch in which nothing
// was broken.
func (a *account) late(r *record, at time.Duration) {
	since := max(r.last, r.confirmedAt) + a.w.plan.steppedBy
	if late := at - since; late > 0 {
		a.Late = max(a.Late, late)
	}
	allowed, hurt := inTime, false
	if a.w.plan.prefetch > 0 { // a few bundles at a time take longer: what is late waits until all open slots are read
		allowed += 4 * inTimeStalled
	}
	for _, f := range a.faults { // in the order in which they began
		excuses := f.excuses + a.w.plan.steppedBy // a message may wait for a time by the broker's clock then
		if f.to >= 0 && f.to != r.to || excuses < since-inTimeStalled || f.from > at {
			continue
		}
		if f.from-since > allowed {
			break
		}
		hurt = true
		if f.stalls {
			allowed = max(allowed, inTimeStalled)
		}
		since = max(since, excuses)
	}
	if !hurt {
		a.LateUnhurt = max(a.LateUnhurt, at-since)
	}
	if at-since > allowed {
		a.problem("%s was %v late, and nothing was broken for %v", r.id(), at-r.last, at-since)
	}
}

// rest judges what is left when all is over.
func (a *account) rest() {
	b := a.w.broker
	for _, q := range b.queues {
		for _, it := range q.items {
			switch {
			case it.bundle == nil && q.name.Ring > 0: // it came when the slot was being released
				it.kept = true // in its next turn
			case it.bundle == nil || it.bundle.Records[0].Kind != bundle.Mark: // a tenure that has ended may have left one
				a.problem("left in %s: %s", name(q.name), it)
			}
		}
	}
	for _, it := range a.foreign {
		if !it.kept {
			a.problem("a foreign message is lost")
		}
	}
	if last, _ := b.known(); last != nil && !a.w.plan.strangers {
		for _, c := range append(last.Turns, bundle.TurnCount{Count: last.Held}) {
			if c.Messages > 0 {
				a.problem("the last snapshot has %+v", c)
			}
		}
	}
	leaders := 0
	for _, p := range a.w.processes {
		switch {
		case p.tenure == nil && a.w.now-p.renewed < 5*time.Second:
		case p.tenure == nil:
			a.problem("%s is no candidate", p.name)
		case p.tenure.leader.Leads():
			leaders++
			if !p.tenure.leader.Rests() {
				a.problem("%s does not rest: it holds %+v", p.name, p.tenure.leader.Stats)
			}
		}
	}
	if leaders != 1 {
		a.problem("%d lead", leaders)
	}
}
