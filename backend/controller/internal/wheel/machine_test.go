package wheel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A table is a machine with a shell that only notes what it is asked for, and a clock that the test
// moves. Marks come back at once unless they are withheld.
type table struct {
	t        *testing.T
	m        *Machine
	mono     time.Duration
	wall     time.Duration // ahead of mono
	ahead    time.Duration // the broker's clock, of mono
	unknown  bool
	withheld bool  // marks do not come back
	deaf     *Slot // those to this slot do not
	lost     bool  // nor do summonses

	full      map[Slot]int // what Count answers
	consumed  map[Slot]int
	asked     int // how often Consume was called
	times     map[Slot]int
	tags      map[Slot]uint64
	acked     map[Slot][]uint64
	delivered []string
	moved     []string
	marks     []Slot
	pending   []func()
	verifies  int
	summons   int // that were written
	why       string
}

func newTable(t *testing.T) *table {
	b := &table{t: t, full: map[Slot]int{}, consumed: map[Slot]int{}, tags: map[Slot]uint64{}, times: map[Slot]int{}, acked: map[Slot][]uint64{}}
	b.m = New(Config{Wheel: Default(), Tenure: "me", Budget: 64 << 20}, b, b.now())
	return b
}

// leading is a table whose machine leads, and has looked at all slots.
func leading(t *testing.T) *table {
	b := newTable(t)
	b.comes(Intake, &Message{Kind: Summons})
	b.pass(10 * time.Second)
	require.True(t, b.m.Leads())
	require.False(t, b.m.surveys())
	return b
}

func (b *table) shows() time.Time { return noon.Add(b.mono + b.ahead) }

func (b *table) now() Now {
	shows := b.shows()
	return Now{
		Mono: b.mono, Wall: noon.Add(b.mono + b.wall), Known: !b.unknown,
		Clock: brokertime.Reading{Earliest: shows, Latest: shows, From: shows},
	}
}

// pass lets time pass.
func (b *table) pass(d time.Duration) {
	for until := b.mono + d; ; {
		for len(b.pending) > 0 {
			next := b.pending
			b.pending = nil
			for _, f := range next {
				f()
			}
		}
		next := b.m.Tick(b.now())
		if len(b.pending) > 0 {
			continue
		}
		if b.mono >= until {
			return
		}
		b.mono = min(until, max(next, b.mono+time.Millisecond))
	}
}

// comes delivers a message.
func (b *table) comes(s Slot, msg *Message) *Message {
	b.tags[s]++
	msg.Size, msg.Consumer = max(msg.Size, 1), cmp.Or(msg.Consumer, b.times[s])
	b.m.Delivered(b.now(), s, b.tags[s], msg)
	return msg
}

// in is a message that is due after a while, and its slot.
func (b *table) in(id string, left time.Duration) (*Message, Slot) {
	to, due, _ := Default().Enter(b.now(), left)
	return &Message{ID: id, Due: due, To: "queue"}, Default().Slot(to)
}

func (b *table) Consume(s Slot, prefetch int) { b.consumed[s] = prefetch; b.asked++; b.times[s]++ }
func (b *table) Release(s Slot) {
	delete(b.consumed, s)
	delete(b.times, s)
	delete(b.tags, s)
}

func (b *table) Ack(s Slot, tag uint64, multiple bool) {
	from := tag
	if multiple {
		from = 1
	}
	for t := from; t <= tag; t++ {
		if !slices.Contains(b.acked[s], t) {
			b.acked[s] = append(b.acked[s], t)
		}
	}
}

func (b *table) Count(s Slot) {
	ready, consumers := b.full[s], 0
	if b.consumed[s] > 0 {
		consumers = 1
	}
	b.pending = append(b.pending, func() { b.m.Counted(b.now(), s, ready, consumers, true) })
}
func (b *table) Verify() { b.verifies++ }
func (b *table) Move(m *Message, to Turn, _ time.Duration) {
	b.moved = append(b.moved, fmt.Sprintf("%s to %s", m.ID, Default()[to.Level].Name))
	b.pending = append(b.pending, func() { b.m.Stored(b.now(), m, Accepted) })
}
func (b *table) Keep(m *Message) {
	b.delivered = append(b.delivered, "kept "+m.ID)
	b.pending = append(b.pending, func() { b.m.Stored(b.now(), m, Accepted) })
}

func (b *table) Deliver(m *Message) {
	b.delivered = append(b.delivered, fmt.Sprintf("%s at %v", m.ID, b.mono))
	outcome := Accepted
	if m.To == "full" {
		outcome = Refused
	}
	if m.To != "silent" {
		b.pending = append(b.pending, func() { b.m.Stored(b.now(), m, outcome) })
	}
}

func (b *table) Mark(s Slot, id MarkID) {
	b.marks = append(b.marks, s)
	if !b.withheld && (b.deaf == nil || *b.deaf != s) {
		b.pending = append(b.pending, func() { b.comes(s, &Message{Kind: Mark, Mark: id}) })
	}
}
func (b *table) Summon() {
	b.summons++
	if b.lost {
		return
	}
	wrote := b.mono
	b.pending = append(b.pending, func() {
		b.m.Summoned(b.now(), wrote)
		b.comes(Intake, &Message{Kind: Summons})
	})
}
func (b *table) Surrender(why string) { b.why = why }

func TestMachine_LeadsOnceItGetsSomething(t *testing.T) {
	b := newTable(t)
	b.pending, b.lost = nil, true // it goes to another
	b.pass(50 * time.Second)
	require.False(t, b.m.Leads())
	require.Len(t, b.consumed, 1)
	require.Empty(t, b.why)
	b.comes(Intake, &Message{Kind: Summons})
	b.pass(time.Second)
	require.True(t, b.m.Leads())
	require.Greater(t, len(b.consumed), 30)
	require.NotContains(t, b.acked[Intake], uint64(1), "the next one must get it")
	b.comes(Intake, &Message{Kind: Summons})
	b.pass(time.Second)
	require.Contains(t, b.acked[Intake], uint64(1), "one is enough")
}

// TestMachine_SurveysAfterItsSummons: what an earlier tenure has written may be stored only when
// the broker's alarm ends. So no slot is found to be empty before something of this tenure was
// stored.
func TestMachine_SurveysAfterItsSummons(t *testing.T) {
	b := newTable(t)
	before := b.mono
	b.pending, b.lost = nil, true
	b.comes(Intake, &Message{Kind: Summons})
	b.summons = 0
	b.pass(18 * time.Second)
	require.True(t, b.m.Leads())
	require.Equal(t, 3, b.summons, "one may be lost")
	b.m.Summoned(b.now(), before-1)
	b.pass(time.Second)
	require.True(t, b.m.surveys(), "that was written before it led")
	require.Empty(t, b.m.survey)
	for range 2 { // the second changes nothing
		b.m.Summoned(b.now(), b.mono-time.Second)
	}
	b.pass(surveyLate - time.Second)
	require.Empty(t, b.m.survey, "others had written on other connections")
	b.pass(2 * time.Second)
	require.False(t, b.m.surveys())
}

// TestMachine_SummonsAgain: its summons is lost, and nobody leads.
func TestMachine_SummonsAgain(t *testing.T) {
	b := newTable(t)
	b.pending, b.lost = nil, true
	b.pass(time.Second)
	b.lost = false
	b.pass(summonEveryOther)
	require.True(t, b.m.Leads())
}

// TestMachine_IntakeForgotten: the broker has moved the consumer of a candidate to a queue that was
// declared again, without telling it.
func TestMachine_IntakeForgotten(t *testing.T) {
	b := newTable(t)
	b.pending, b.lost = nil, true
	delete(b.consumed, Intake)
	b.pass(2 * summonEveryOther)
	require.Contains(t, b.why, "the intake")
}

func TestMachine_Delivers(t *testing.T) {
	b := leading(t)
	for _, left := range []time.Duration{0, 500 * time.Millisecond, 2 * time.Second} {
		b.delivered = nil
		msg, slot := b.in("m", left)
		due := b.mono + left
		require.Positive(t, b.consumed[slot])
		b.comes(slot, msg)
		b.pass(left + time.Second)
		require.Equal(t, []string{fmt.Sprintf("m at %v", due)}, b.delivered)
	}
}

// TestMachine_MarkGivenBack: it may come before what was stored before it, and proves nothing.
func TestMachine_MarkGivenBack(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("m", 2500*time.Millisecond)
	msg.Ticket = true
	b.deaf = &slot
	b.comes(slot, msg)
	b.pass(3 * time.Second)
	require.NotEmpty(t, b.m.visits[slot].sent)
	for _, sent := range b.m.visits[slot].sent {
		b.comes(slot, &Message{Kind: Mark, Mark: sent.id, Again: true})
	}
	b.pass(time.Second)
	require.Empty(t, b.delivered)
	b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due})
	b.deaf = nil
	b.pass(markAgain + time.Second)
	require.Empty(t, b.delivered, "it was cancelled")
	require.Contains(t, b.acked[slot], uint64(1))
}

// TestMachine_ConsumedAnew: marks that come to another consumer of a slot may have overtaken what
// was on its way to the one before, if they were written before the first of them came.
func TestMachine_ConsumedAnew(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("m", 2500*time.Millisecond)
	msg.Ticket = true
	b.deaf = &slot
	b.comes(slot, msg)
	b.pass(3 * time.Second)
	b.m.consume(b.m.visits[slot])
	b.pass(3 * time.Second)
	sent := b.m.visits[slot].sent
	require.Greater(t, len(sent), 1)
	for _, mark := range sent {
		b.comes(slot, &Message{Kind: Mark, Mark: mark.id})
	}
	b.pass(time.Second)
	require.Empty(t, b.delivered)
	b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due, Again: true})
	b.deaf = nil
	b.pass(markAgain + time.Second)
	require.Empty(t, b.delivered, "it was cancelled")
	require.Contains(t, b.acked[slot], uint64(1))
}

// TestMachine_OrphanOfRenewed: a change waits for its message, which may be in a slot that is
// silent, also when that is consumed anew.
func TestMachine_OrphanOfRenewed(t *testing.T) {
	b := leading(t)
	_, was := b.in("m", 5*time.Second)
	msg, slot := b.in("m", 20*time.Second)
	require.NotEqual(t, was, slot)
	b.pass(time.Second)
	silent := b.m.visits[was]
	require.NotNil(t, silent)
	b.deaf = &was
	b.pass(18 * time.Second)
	b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due})
	for i := range 70 {
		if other, in := b.in(fmt.Sprint(i), 6*time.Second); i%10 == 0 { // for which other slots get marks
			other.Ticket = true
			b.comes(in, other)
		}
		b.pass(time.Second)
		require.NotContains(t, b.acked[slot], uint64(1))
	}
	require.NotSame(t, silent, b.m.visits[was], "it was consumed anew")
	b.deaf = nil
	b.pass(markAgain + keptFor + 3*time.Second)
	require.Contains(t, b.acked[slot], uint64(1), "it never came")
}

func TestMachine_MovesDown(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("m", 30*time.Minute)
	require.Equal(t, 1, slot.Level)
	b.pass(29*time.Minute + 30*time.Second)
	require.Positive(t, b.consumed[slot])
	b.comes(slot, msg)
	b.pass(time.Second)
	require.Empty(t, b.moved, "memory can hold all of that slot")

	far, hours := b.in("far", 15*time.Hour)
	b.pass(13 * time.Hour)
	b.full[hours] = 5000
	b.pass(5 * time.Minute)
	require.Positive(t, b.consumed[hours], "%v", b.shows())
	b.comes(hours, far)
	b.pass(time.Second)
	require.Equal(t, []string{"far to 20m"}, b.moved)
	require.Equal(t, []uint64{1}, b.acked[hours])
}

func TestMachine_Cancel(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("m", 2500*time.Millisecond)
	msg.Ticket = true
	drop := &Message{Kind: Change, ID: "m", Due: msg.Due}
	b.comes(slot, drop)
	b.comes(slot, msg)
	b.pass(3 * time.Second)
	require.Empty(t, b.delivered)
	require.Equal(t, []uint64{2}, slices.DeleteFunc(b.acked[slot], func(tag uint64) bool { return tag > 2 }), "not the change yet")
	b.pass(time.Minute)
	require.Contains(t, b.acked[slot], uint64(1))
	b.comes(slot, &Message{ID: "m", Due: msg.Due, Ticket: true, To: "queue"})
	b.pass(time.Second)
	require.Empty(t, b.delivered, "a copy")
	b.pass(time.Hour)
	require.Empty(t, b.m.changes)
	require.Empty(t, b.m.waiting)
}

// TestMachine_CancelledWithoutAMajority: if the queue of a message stores no acknowledgement, the
// message comes again. So the change stays, which is in another queue.
func TestMachine_CancelledWithoutAMajority(t *testing.T) {
	b := leading(t)
	_, stuck := b.in("", 0) // it was due then, and is postponed
	msg, slot := b.in("m", 3*time.Second)
	require.NotEqual(t, stuck, slot)
	msg.Ticket = true
	b.comes(stuck, msg)
	b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due})
	b.deaf = &stuck
	b.pass(15 * time.Second)
	require.Empty(t, b.delivered)
	require.Contains(t, b.acked[stuck], uint64(1), "which is not stored")
	for range 6 {
		other, slot := b.in("other", 2*time.Second) // so that marks come back from other queues
		other.Ticket = true
		b.comes(slot, other)
		b.pass(5 * time.Second)
	}
	require.NotContains(t, b.acked[slot], uint64(1))
	require.Zero(t, b.tags[stuck], "it is released, and consumed anew")
	b.comes(stuck, &Message{ID: "m", Due: msg.Due, Ticket: true, To: "queue"})
	b.pass(5 * time.Second)
	require.NotContains(t, fmt.Sprint(b.delivered), "m at")
	b.deaf = nil
	b.pass(30 * time.Second)
	require.Contains(t, b.acked[slot], uint64(1))
	b.pass(time.Hour)
	require.Empty(t, b.m.changes)
}

// TestMachine_CancelledInTheIntake: it leads by that message, and its summons is lost.
func TestMachine_CancelledInTheIntake(t *testing.T) {
	b := newTable(t)
	b.pending, b.lost = nil, true
	msg, slot := b.in("m", 2*time.Second)
	msg.Ticket = true
	b.comes(Intake, msg)
	b.pass(time.Second)
	drop := b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due})
	b.pass(50 * time.Second)
	require.Contains(t, b.acked[Intake], msg.tag)
	require.NotContains(t, b.acked[slot], drop.tag, "nothing tells that this is stored")
	b.lost = false
	b.pass(2 * time.Minute)
	require.Contains(t, b.acked[slot], drop.tag)
}

// TestMachine_ChangeForNobody: its message was never published. It is neither kept for ever nor
// looked for.
func TestMachine_ChangeForNobody(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("never published", 2500*time.Millisecond)
	b.comes(slot, &Message{Kind: Change, ID: msg.ID, Due: msg.Due})
	b.comes(slot, &Message{Kind: Change, ID: msg.ID, Due: msg.Due, Next: msg.Due + 1000})
	b.pass(time.Minute)
	require.Subset(t, b.acked[slot], []uint64{1, 2})
	b.pass(5 * time.Minute)
	require.Equal(t, Sizes{Visits: len(b.m.visits), Marks: len(b.m.ticketed)}, b.m.Sizes())
}

func TestMachine_NotWithoutProof(t *testing.T) {
	b := leading(t)
	b.withheld = true
	msg, slot := b.in("m", 2*time.Second)
	msg.Ticket = true
	b.comes(slot, msg)
	free, slot := b.in("free", 2*time.Second)
	b.comes(slot, free)
	due := b.mono + 2*time.Second
	b.pass(5 * time.Second)
	require.Equal(t, []string{fmt.Sprintf("free at %v", due)}, b.delivered)
	b.withheld = false
	b.pass(5 * time.Second)
	require.Len(t, b.delivered, 2)
}

func TestMachine_Postpone(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("m", 2*time.Second)
	msg.Ticket = true
	first := msg.Due
	at := func(after time.Duration) brokertime.Due {
		return first + brokertime.Due(after.Milliseconds())
	}
	b.comes(slot, msg)
	for i := range 1000 { // a debounce
		b.comes(slot, &Message{Kind: Change, ID: "m", Due: at(time.Duration(i) * time.Millisecond), Next: at(time.Duration(i+1) * time.Millisecond)})
	}
	due := b.mono + 3*time.Second
	b.pass(10 * time.Second)
	require.Equal(t, []string{fmt.Sprintf("m at %v", due)}, b.delivered)

	b.delivered = nil
	msg, slot = b.in("n", 2*time.Second)
	msg.Ticket, first = true, msg.Due
	b.comes(slot, &Message{Kind: Change, ID: "n", Due: first, Next: at(time.Hour)})
	b.comes(slot, &Message{Kind: Change, ID: "n", Due: first, Next: at(2 * time.Hour)})
	b.comes(slot, msg)
	b.pass(10 * time.Second)
	require.Equal(t, []string{"n to 20m"}, b.moved)
	require.Equal(t, at(time.Hour), msg.Due)
	require.Equal(t, []brokertime.Due{at(2 * time.Hour)}, msg.Then)
	require.True(t, msg.Ticket)
	require.False(t, msg.Own)
}

// TestMachine_PostponedWhileItsDestinationPauses: consumers see the time to which it was postponed,
// and not the one at which it is tried again.
func TestMachine_PostponedWhileItsDestinationPauses(t *testing.T) {
	b := leading(t)
	other, slot := b.in("other", time.Second)
	other.To = "full"
	b.comes(slot, other)
	msg, slot := b.in("m", time.Second)
	msg.Ticket, msg.To = true, "full"
	next := msg.Due + 500
	b.comes(slot, msg)
	b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due, Next: next})
	b.pass(1900 * time.Millisecond)
	require.Contains(t, b.moved, "m to 4s")
	require.NotEqual(t, next, msg.Due)
	require.Equal(t, next, msg.PostponedTo)
}

// TestMachine_PostponedByOneTicket: a thousand times. The message carries the latest of these
// times, and may be cancelled by the ticket of each.
func TestMachine_PostponedByOneTicket(t *testing.T) {
	const times = 1000
	b := leading(t)
	msg, slot := b.in("m", 2*time.Second)
	msg.Ticket = true
	first := msg.Due
	at := func(i int) brokertime.Due {
		return first + brokertime.Due((time.Hour + time.Duration(i)*time.Second).Milliseconds())
	}
	for i := range times { // in any order
		b.comes(slot, &Message{Kind: Change, ID: "m", Due: first, Next: at(i * 7 % times)})
	}
	b.comes(slot, msg)
	b.pass(10 * time.Second)
	require.Equal(t, []string{"m to 20m"}, b.moved, "in one step")
	require.Equal(t, at(times-MostThen), msg.Due)
	require.Len(t, msg.Then, MostThen-1)
	require.Equal(t, at(times-1), msg.Then[MostThen-2])
}

// TestMachine_PostponedToTheSameTime: by the broker's clock; by the clock of the process it was due
// before.
func TestMachine_PostponedToTheSameTime(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("m", 2*time.Second)
	msg.Ticket, msg.Own, msg.OwnDue = true, true, b.mono+1900*time.Millisecond
	due := b.mono + 2*time.Second
	b.comes(slot, msg)
	b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due, Next: msg.Due})
	b.pass(3 * time.Second)
	require.Equal(t, []string{fmt.Sprintf("m at %v", due)}, b.delivered)
}

func TestMachine_StoodStill(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("m", 2*time.Second)
	b.comes(slot, msg)
	b.mono += time.Minute
	b.m.Tick(b.now())
	b.pass(time.Second)
	require.Empty(t, b.delivered)
	require.Equal(t, 1, b.verifies)
	b.m.Verified(b.now())
	b.pass(time.Second)
	require.Len(t, b.delivered, 1)
}

// TestMachine_StoodStillAgain: what was answered before it stood still once more says nothing.
func TestMachine_StoodStillAgain(t *testing.T) {
	b := leading(t)
	b.wall += time.Minute
	b.pass(time.Second)
	b.wall += time.Minute
	b.m.Verified(b.now())
	msg, slot := b.in("x", 2*time.Second)
	b.comes(slot, msg)
	b.pass(3 * time.Second)
	require.Equal(t, 2, b.verifies)
	require.Empty(t, b.delivered)
	b.m.Verified(b.now())
	b.pass(time.Second)
	require.Len(t, b.delivered, 1)
}

func TestMachine_DestinationsThatRefuse(t *testing.T) {
	b := leading(t)
	for i := range 2000 {
		msg, slot := b.in(fmt.Sprint(i), time.Second)
		msg.To = "full"
		b.comes(slot, msg)
	}
	b.pass(1500 * time.Millisecond)
	good, slot := b.in("good", 100*time.Millisecond)
	tried := len(b.delivered)
	b.comes(slot, good)
	b.pass(time.Second)
	require.Contains(t, b.delivered, fmt.Sprintf("good at %v", 11600*time.Millisecond))
	require.Less(t, tried, 2001)
	require.Len(t, b.moved, 2000)

	silent, slot := b.in("silent", 0)
	silent.To = "silent"
	b.comes(slot, silent)
	b.pass(10 * time.Second)
	next, slot := b.in("next", 0)
	next.To = "silent"
	b.comes(slot, next)
	b.pass(time.Second)
	require.Equal(t, "next to 4s", b.moved[len(b.moved)-1], "it does not wait in memory")
}

// TestMachine_SilentTakesLittleMemory: what a destination does not answer for stays in memory, and
// that is for all.
func TestMachine_SilentTakesLittleMemory(t *testing.T) {
	b := leading(t)
	b.m.cfg.Budget = 1 << 20
	const many, size = 30, 30_000
	for i := range many {
		msg, slot := b.in(fmt.Sprint(i), 0)
		msg.To, msg.Size = "silent", size
		b.comes(slot, msg)
	}
	b.pass(2 * silentFor)
	require.LessOrEqual(t, b.m.bytes, b.m.cfg.Budget/flyingShare)
	require.Equal(t, many, len(b.moved)+b.m.dests["silent"].flying, "the others are in the wheel")
	require.NotEmpty(t, b.moved)

	large, slot := b.in("large", 0)
	large.Size = size * many
	b.comes(slot, large)
	b.pass(time.Second)
	require.Contains(t, b.delivered[len(b.delivered)-1], "large at", "one may be larger")
}

// TestMachine_LargeIsNotOvertaken: smaller messages for its destination do not keep a large one
// waiting.
func TestMachine_LargeIsNotOvertaken(t *testing.T) {
	b := leading(t)
	b.m.cfg.Budget = 1 << 20
	send := func(id string, size int) *Message {
		msg, slot := b.in(id, 0)
		msg.To, msg.Size = "silent", size // it is answered for below
		b.comes(slot, msg)
		b.pass(10 * time.Millisecond)
		return msg
	}
	flying := []*Message{send("small", 30_000), send("small", 30_000)}
	send("large", 100_000)
	for range 20 {
		b.m.Stored(b.now(), flying[0], Accepted)
		flying = append(flying[1:], send("small", 30_000))
		if strings.HasPrefix(b.delivered[len(b.delivered)-1], "large") {
			return
		}
	}
	t.Fatal("it waits for as long as others come")
}

func TestMachine_FindsWhatWasLeft(t *testing.T) {
	b := newTable(t)
	old, slot := b.in("old", 10*time.Second)
	old.Ticket = true
	b.full[slot] = 2
	b.pending = nil
	b.mono += 118 * time.Second // nobody led
	b.pending = nil
	b.m = New(Config{Wheel: Default(), Tenure: "me", Budget: 64 << 20}, b, b.now())
	b.withheld = true
	b.pass(time.Second)
	require.Equal(t, mostAtRest, b.consumed[slot])
	b.full[slot] = 0
	b.comes(slot, old)
	next, same := b.in("next", 100*time.Second)
	require.Equal(t, slot, same)
	b.comes(slot, next)
	b.withheld = false
	require.Equal(t, []string{"old to 4s"}, b.moved, "it does not wait there for its proof")
	_, open := b.in("", 0)
	b.comes(open, &Message{ID: old.ID, Due: old.Due, Ticket: true, To: "queue"})
	b.pass(5 * time.Second)
	require.Len(t, b.delivered, 1)
	require.Zero(t, b.consumed[slot], "it is left alone until its turn")
	require.Equal(t, []uint64{1}, slices.DeleteFunc(b.acked[slot], func(tag uint64) bool { return tag > 2 }))
}

// TestMachine_MuchWasLeft: thousands of messages with tickets, in a slot that is at rest. Nothing
// is proved before all have been read, and few of them are in hand at a time.
func TestMachine_MuchWasLeft(t *testing.T) {
	const left = 3000
	b := newTable(t)
	b.pending = nil
	due := b.now().reckon(-20 * time.Minute)
	s := Default().Slot(Default().at(1, due.Time()))
	b.full[s], b.deaf = left, &s
	again := func() *Message { return &Message{ID: "m", Due: due, Ticket: true, To: "queue"} }
	b.comes(Intake, &Message{Kind: Summons})
	for came, moved := 0, 0; b.mono < 10*time.Second; b.pass(10 * time.Millisecond) {
		for ; came < left && came-len(b.acked[s]) < b.consumed[s]; came++ {
			b.comes(s, again())
		}
		for ; moved < len(b.moved); moved++ {
			b.comes(Default().Slot(Default().at(0, b.shows())), again())
		}
		if came == left {
			b.deaf = nil // the mark is behind them
		}
	}
	require.Len(t, b.delivered, left)
}

// TestMachine_OfTheNextTurn: a message of the slot's next turn comes to who still consumes it for
// this one. It must not go back to the end of that queue, to come again at once.
func TestMachine_OfTheNextTurn(t *testing.T) {
	b := leading(t)
	w := Default()
	turn := w.at(1, b.shows())
	b.pass(w.closes(turn).Sub(b.shows()) - time.Second)
	busy, _ := b.in("busy", 3*time.Second)
	b.comes(w.Slot(turn), busy)
	b.pass(1500 * time.Millisecond)
	next, slot := b.in("next", w[1].Reach)
	require.Equal(t, w.Slot(turn), slot)
	b.comes(slot, next)
	b.pass(time.Second)
	require.Empty(t, b.moved)
	b.pass(5 * time.Second)
	require.Len(t, b.delivered, 1)
	require.Zero(t, b.consumed[slot], "it is left alone until its turn")
}

// TestMachine_LooksAgain: what comes while a slot is counted is not in that count.
func TestMachine_LooksAgain(t *testing.T) {
	b := leading(t)
	_, slot := b.in("m", 2*time.Minute)
	b.withheld = true // what is found is consumed until a mark comes back
	b.m.look(slot, true)
	b.m.look(slot, false)
	require.True(t, b.m.surveys(), "an earlier tenure may still have left something")
	b.m.countSome()
	b.full[slot] = 1
	b.m.look(slot, false)
	b.pass(time.Second)
	require.Positive(t, b.consumed[slot])
}

// TestMachine_PostponedBetweenTurns: a message does not go back with the due time that it had, when
// the change that has postponed it is acknowledged.
func TestMachine_PostponedBetweenTurns(t *testing.T) {
	b := leading(t)
	old, slot := b.in("old", 3*time.Minute)
	old.Ticket = true
	next := old.Due + brokertime.Due((40 * time.Minute).Milliseconds())
	b.pass(15 * time.Minute)
	b.full[slot], b.withheld = 2, true
	b.m.look(slot, false)
	b.pass(time.Second)
	require.Equal(t, mostAtRest, b.consumed[slot])
	b.comes(slot, &Message{Kind: Change, ID: "old", Due: old.Due, Next: next})
	b.comes(slot, old)
	b.full[slot], b.withheld = 0, false
	b.pass(5 * time.Second)
	require.Equal(t, []string{"old to 1m"}, b.moved)
	b.pass(5 * time.Minute)
	require.Empty(t, b.m.changes)
	require.Zero(t, b.consumed[slot])
}

// TestMachine_DeafQueue: a queue that was deleted and declared again delivers nothing to who
// consumed the first.
func TestMachine_DeafQueue(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("m", 2*time.Second)
	b.deaf = &slot
	b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due})
	b.withheld = true
	b.pass(time.Minute)
	require.NotZero(t, b.tags[slot], "no mark comes back from any queue: the broker may not read")
	b.withheld = false
	for range 6 {
		other, slot := b.in("other", 2*time.Second)
		other.Ticket = true
		b.comes(slot, other)
		b.pass(5 * time.Second)
	}
	require.Zero(t, b.tags[slot], "it was consumed anew")
	b.deaf = nil
	b.pass(10 * time.Minute)
	require.Equal(t, Sizes{Visits: len(b.m.visits), Marks: len(b.m.ticketed)}, b.m.Sizes())
	require.Zero(t, b.m.kept)
	messages, _ := b.m.Held()
	require.Equal(t, 1, messages, "the summons")
}

// TestMachine_ChangeIsPassedOn: nothing tells for long that a change is not needed any more, as
// while a slot has no majority. No consumer holds it for longer than the broker permits.
func TestMachine_ChangeIsPassedOn(t *testing.T) {
	b := leading(t)
	b.withheld = true
	msg, slot := b.in("m", 2*time.Second)
	drop := b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due})
	b.pass(heldFor - time.Minute)
	require.Empty(t, b.moved)
	b.pass(2 * time.Minute)
	require.Equal(t, []string{"m to 4s"}, b.moved)
	require.Contains(t, b.acked[slot], drop.tag)
	require.Zero(t, b.m.kept)
}

// TestMachine_AfterItsEnd: what is stored yet is acknowledged, and nothing else is asked for.
func TestMachine_AfterItsEnd(t *testing.T) {
	b := leading(t)
	msg, slot := b.in("silent", time.Second)
	msg.To = "silent"
	b.comes(slot, msg)
	b.pass(2 * time.Second)
	require.Len(t, b.delivered, 1)
	b.m.End()
	messages, _ := b.m.Held()
	require.Zero(t, messages)
	b.comes(slot, &Message{ID: "late", Due: msg.Due, To: "queue"})
	b.m.Stored(b.now(), msg, Accepted)
	b.pass(time.Second)
	b.m.Flush(b.now())
	require.Len(t, b.delivered, 1)
	require.Contains(t, b.acked[slot], msg.tag)
}

// TestMachine_StoodStillAndFull: nothing is read while memory is full, so no answer could come.
func TestMachine_StoodStillAndFull(t *testing.T) {
	b := leading(t)
	b.mono += time.Minute
	b.m.Tick(b.now())
	for range 80 {
		msg, slot := b.in("large", 2*time.Second)
		msg.Size = 1 << 20
		b.comes(slot, msg)
	}
	b.pass(time.Second)
	require.NotEmpty(t, b.why)
}

func TestMachine_MemoryIsBounded(t *testing.T) {
	b := leading(t)
	_, slot := b.in("m", 2*time.Second)
	require.Equal(t, mostUnknown, b.consumed[slot])
	for range 1000 {
		msg, slot := b.in("small", 2*time.Second)
		msg.Size = 1 << 10
		b.comes(slot, msg)
	}
	require.Greater(t, b.consumed[slot], 500)
	msg, slot := b.in("large", 2*time.Second)
	msg.Size = 1 << 20
	b.comes(slot, msg)
	b.pass(6 * time.Second)
	_, slot = b.in("m", 2*time.Second)
	require.LessOrEqual(t, b.consumed[slot], 450)
}

// TestMachine_BurstInOneSlot: all that is due within seconds is in memory when it is due, if that
// has room for it.
func TestMachine_BurstInOneSlot(t *testing.T) {
	b := leading(t)
	const size, many = 2 << 10, 64 << 20 / (2 << 10) * 3 / 4
	_, slot := b.in("m", 20*time.Second)
	b.pass(16 * time.Second)
	came := 0
	for ; came < many && came < b.consumed[slot]; came++ {
		msg, _ := b.in(fmt.Sprint(came), 4*time.Second)
		msg.Size = size
		b.comes(slot, msg)
	}
	require.Equal(t, many, came, "the queue would deliver no more")
}

// TestMachine_ChangesKeepNothingAway: a leader that starts knows no sizes, and may get changes
// only.
func TestMachine_ChangesKeepNothingAway(t *testing.T) {
	b := leading(t)
	first, slot := b.in("m", 2*time.Second)
	held := 0
	for ; held < 1000 && held < b.consumed[slot]; held++ {
		b.comes(slot, &Message{Kind: Change, ID: fmt.Sprint(held), Due: first.Due})
	}
	require.Equal(t, 1000, held, "the queue would deliver no more")

	for range 1000 {
		msg, slot := b.in("m", 2*time.Second)
		b.comes(slot, msg)
	}
	b.asked = 0
	for i := range 60_000 {
		b.comes(slot, &Message{Kind: Change, ID: fmt.Sprint("more", i), Due: first.Due})
	}
	require.Less(t, b.asked, 20, "the broker is asked once for many")
}

// TestMachine_ChangesFillMemory: messages that are due wait for a mark, and that is behind the
// changes of their minute. With these, or by themselves, they take more than half of the memory.
func TestMachine_ChangesFillMemory(t *testing.T) {
	for _, messages := range []int{100, 300} { // of each of two slots
		t.Run(fmt.Sprint(messages), func(t *testing.T) {
			const changes, size = 600, 1 << 10
			b := leading(t)
			b.m.cfg.Budget = 1 << 20
			later, _ := b.in("later", 100*time.Second)
			minute := Default().Slot(Default().at(1, later.Due.Time()))
			b.deaf = &minute
			came := map[Slot]int{}
			fill := func(s Slot, most int, next func(i int) *Message) {
				for ; came[s] < most && came[s]-len(b.acked[s]) < b.consumed[s]; came[s]++ {
					b.comes(s, next(came[s]))
				}
			}
			for range 150 {
				b.pass(time.Second)
				held := b.m.inHand
				for _, due := range []brokertime.Due{later.Due, later.Due - 4000} {
					fill(Default().Slot(Default().at(0, due.Time())), messages, func(i int) *Message {
						return &Message{ID: fmt.Sprint(i), Due: due, To: "queue", Ticket: true, Size: size}
					})
				}
				if held < 2*messages {
					continue // the minute comes when memory holds these, as where a leader starts
				}
				fill(minute, changes, func(i int) *Message {
					return &Message{Kind: Change, ID: fmt.Sprint("of another", i), Due: later.Due, Size: size}
				})
				if came[minute] == changes {
					b.deaf = nil
				}
			}
			require.Equal(t, changes, came[minute], "the mark is behind them")
			require.Len(t, b.delivered, 2*messages)
		})
	}
}

// TestMachine_MoreChangesThanMemory: all messages of some seconds were cancelled. Held changes take
// what memory messages may take, and the mark is behind further ones.
func TestMachine_MoreChangesThanMemory(t *testing.T) {
	b := leading(t)
	b.m.cfg.Budget = 100_000
	b.comes(Intake, &Message{Kind: User, Size: 1000, Due: b.now().reckon(time.Second), To: "queue"}) // its size is known
	msg, slot := b.in("x", 3*time.Second)
	b.withheld = true
	taken := 0
	for ; taken < 300 && taken < b.consumed[slot]; taken++ {
		b.comes(slot, &Message{Kind: Change, ID: fmt.Sprintf("m%d", taken), Due: msg.Due, Size: 1000})
		b.pass(time.Millisecond)
	}
	b.pass(time.Second)
	require.Equal(t, 300, taken, "it takes no more than %d", b.consumed[slot])
	require.Greater(t, b.consumed[slot], 300)
}

// TestWheel_Late: the broker's clock is set forward while a message waits to be stored.
func TestWheel_Late(t *testing.T) {
	b := newTable(t)
	to, _, within := Default().Enter(b.now(), 4*time.Minute)
	require.LessOrEqual(t, within, brokertime.NoticedWithin)
	b.mono += within + time.Second
	require.False(t, Default().Late(b.now(), to))
	b.ahead = 35 * time.Minute
	require.True(t, Default().Late(b.now(), to))
}

// TestMachine_FullSlot: what is done waits for what came before it, but not while it keeps away
// what is behind.
func TestMachine_FullSlot(t *testing.T) {
	b := leading(t)
	b.m.cfg.Budget = 1 << 20
	due, _ := b.in("", 100*time.Second)
	slot := Default().Slot(Default().at(1, due.Due.Time()))
	b.full[slot] = 10_000 // more than memory can hold: they are moved
	b.pass(10 * time.Second)
	b.comes(slot, &Message{Kind: Change, ID: "held", Due: due.Due})
	moved := 0
	for ; moved+1 < b.consumed[slot]; moved++ {
		b.comes(slot, &Message{ID: fmt.Sprint(moved), Due: due.Due, To: "queue", Size: 1 << 10})
	}
	require.Greater(t, moved, ackFew)
	b.pass(time.Second)
	require.Len(t, b.moved, moved)
	require.Len(t, b.acked[slot], moved+2, "and the marks behind them, the first was for another consumer")
}

// TestMachine_NextTurn: what comes for the next turn of a slot, while its consumer leaves, does not
// keep it.
func TestMachine_NextTurn(t *testing.T) {
	b := leading(t)
	w := Default()
	turn := w.at(0, b.shows())
	slot := w.Slot(turn)
	overdue, _ := b.in("", time.Second)
	b.pass(w.closes(turn).Sub(b.shows()) - time.Second)
	b.comes(slot, overdue)
	b.pass(time.Second)
	require.NotZero(t, b.consumed[slot])
	turn.Number += int64(w[0].Slots)
	due, in := b.in("", w.begin(turn).Sub(b.shows()))
	require.Equal(t, slot, in)
	b.comes(slot, due)
	b.comes(slot, &Message{Kind: Change, ID: "next", Due: due.Due})
	b.pass(10 * time.Second)
	require.Zero(t, b.consumed[slot])
	messages, _ := b.m.Held()
	require.Equal(t, 1, messages, "the summons")
}

// TestMachine_PostponedToTheNextTurn: a message that was postponed is stored as such before it
// leaves its slot.
func TestMachine_PostponedToTheNextTurn(t *testing.T) {
	b := leading(t)
	w := Default()
	turn := w.at(0, b.shows())
	slot := w.Slot(turn)
	msg, _ := b.in("m", time.Second)
	msg.Ticket = true
	next := brokertime.Due(w.begin(turn).Add(time.Duration(w[0].Slots) * w[0].Width).UnixMilli())
	b.pass(w.closes(turn).Sub(b.shows()) - 2*markAgain)
	b.withheld = true
	b.comes(slot, msg)
	b.comes(slot, &Message{Kind: Change, ID: "m", Due: msg.Due, Next: next})
	for b.shows().Before(w.closes(turn)) {
		b.pass(100 * time.Millisecond)
		b.comes(slot, &Message{Kind: Mark}) // it is not idle
	}
	require.Empty(t, b.moved)
	b.withheld = false
	b.pass(2 * markAgain)
	require.Equal(t, []string{"m to 4s"}, b.moved)
}
