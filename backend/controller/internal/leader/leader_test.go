package leader

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// A bench is a leader with queues that store and deliver at once, unless one is stuck.
type bench struct {
	t      *testing.T
	leader *Leader
	now    Now
	queues map[Queue]*store
	stuck  map[Queue]bool // these store nothing
	late   func(Deliver)  // takes what is to be delivered, if it is not stored at once
	full   bool           // the unroutable queue, which refuses what is not ours
	known  *bundle.Counts // the last snapshot
	told   []string       // what was done since it was asked for
	number uint64
}

// A store is a queue of the bench.
type store struct {
	ready    []*bundle.Bundle
	unacked  map[uint64]*bundle.Bundle
	tag      uint64
	consumed int // with this prefetch
}

var start = time.Unix(1_795_200_000, 0) // a slot of each ring up to 100 minutes begins then

func at(d time.Duration) brokertime.Due { return brokertime.Due(start.Add(d).UnixMilli()) }

func newBench(t *testing.T, cfg Config) *bench {
	b := &bench{t: t, queues: map[Queue]*store{}, stuck: map[Queue]bool{}}
	for _, q := range append(Default().Slots(), Log) {
		b.queues[q] = &store{unacked: map[uint64]*bundle.Bundle{}}
	}
	b.at(0)
	cfg.Tenure = "t"
	b.begin(cfg)
	b.said()
	return b
}

// begin begins a tenure: what the last had in hand goes back.
func (b *bench) begin(cfg Config) {
	for name := range b.queues {
		b.giveBack(name)
	}
	cfg.Rings = Default()
	b.leader = New(cfg, b.now)
	b.queues[Log].consumed = LogPrefetch
	b.deliver(Log)
	b.run(time.Second) // it leads, and has looked at all slots
	require.True(b.t, b.leader.Leads())
}

func (b *bench) giveBack(name Queue) {
	q := b.queues[name]
	var back []*bundle.Bundle
	for _, tag := range slices.Sorted(maps.Keys(q.unacked)) {
		back = append(back, q.unacked[tag])
	}
	*q = store{ready: append(back, q.ready...), unacked: map[uint64]*bundle.Bundle{}}
}

func (b *bench) at(d time.Duration) {
	shown := start.Add(d)
	b.now = Now{Mono: d, Known: true, Clock: brokertime.Reading{Earliest: shown, Latest: shown}}
}

// run lets time pass.
func (b *bench) run(d time.Duration) {
	for end := b.now.Mono + d; b.now.Mono < end; {
		b.at(b.now.Mono + 10*time.Millisecond)
		b.step(Tick{})
	}
}

// write has a publisher write records to the log.
func (b *bench) write(records ...bundle.Record) {
	b.number++
	q := b.queues[Log]
	q.ready = append(q.ready, &bundle.Bundle{Writer: "p", Number: b.number, Records: records})
	b.deliver(Log)
}

func message(id string, due time.Duration) bundle.Record {
	return bundle.Record{ID: id, Due: at(due), Ticket: true, To: "q", Payload: []byte(id)}
}

func (b *bench) step(e Event) {
	todo, _ := b.leader.Step(b.now, e)
	for _, e := range append([]Effect{}, todo...) {
		b.do(e)
	}
}

func (b *bench) do(e Effect) {
	switch e := e.(type) {
	case Consume:
		b.queues[e.Queue].consumed = e.Prefetch
		b.deliver(e.Queue)
	case Release:
		b.giveBack(e.Queue)
		b.step(Released(e))
	case Ack:
		q := b.queues[e.Queue]
		for tag := range q.unacked {
			if tag == e.Tag || e.Multiple && tag < e.Tag {
				b.tell(q.unacked[tag], "ack %s", tell(q.unacked[tag]))
				delete(q.unacked, tag)
			}
		}
		b.deliver(e.Queue)
	case Write:
		b.tell(e.Bundle, "write %s", tell(e.Bundle))
		if b.stuck[e.To] {
			return
		}
		b.queues[e.To].ready = append(b.queues[e.To].ready, e.Bundle)
		b.step(Written{e.ID, true})
		b.deliver(e.To)
	case Deliver:
		if raw := e.Item.Raw; raw != nil {
			b.told = append(b.told, fmt.Sprintf("keep %v", raw))
			b.step(Sent{e.Item, !b.full})
			return
		}
		b.told = append(b.told, "deliver "+e.Item.ID)
		if b.late != nil {
			b.late(e)
			return
		}
		b.step(Sent{e.Item, true})
	case Snapshot:
		b.known = e.Counts
		b.step(Kept{})
	case Recall:
		b.step(Recalled{Counts: b.known, Bundles: b.bundles()})
	case Surrender:
		b.told = append(b.told, "surrender: "+e.Why)
	}
}

// bundles is how many each slot has.
func (b *bench) bundles() map[Queue]int {
	all := map[Queue]int{}
	for name, q := range b.queues {
		all[name] = len(q.ready)
	}
	return all
}

func (b *bench) deliver(name Queue) {
	for q := b.queues[name]; len(q.ready) > 0 && len(q.unacked) < q.consumed; {
		next := q.ready[0]
		q.ready = q.ready[1:]
		q.tag++
		q.unacked[q.tag] = next
		b.step(Delivered{Queue: name, Tag: q.tag, Bundle: next})
	}
}

// tell notes what was done with a bundle, but for marks.
func (b *bench) tell(of *bundle.Bundle, format string, args ...any) {
	if of.Records[0].Kind != bundle.Mark {
		b.told = append(b.told, fmt.Sprintf(format, args...))
	}
}

func tell(b *bundle.Bundle) string {
	where := "log"
	if b.InSlot {
		where = Default()[b.Turn.Level].Name
	}
	ids := ""
	for _, r := range b.Records {
		ids += [...]string{bundle.Message: "", bundle.Cancel: "-", bundle.Postpone: ">", bundle.Mark: "mark"}[r.Kind] + r.ID
	}
	return where + ":" + ids
}

// said returns what was done since it was asked last.
func (b *bench) said() string {
	all := strings.Join(b.told, ", ")
	b.told = nil
	return all
}

// TestLeader_Near: what is due soon is held, and its bundle acknowledged after the last of it.
func TestLeader_Near(t *testing.T) {
	b := newBench(t, Config{})
	b.write(message("a", 2500*time.Millisecond), message("b", 2*time.Second))
	b.run(time.Second)
	require.Equal(t, "deliver b", b.said())
	b.run(time.Second)
	require.Equal(t, "deliver a, ack log:ab", b.said())
}

// TestLeader_Own: the leader's own messages come when they are due by its clock, also those that it
// wrote while the broker's was known less well.
func TestLeader_Own(t *testing.T) {
	b := newBench(t, Config{})
	write := func(id string, due time.Duration) {
		own := bundle.Record{ID: id, Due: at(due + 500*time.Millisecond), Own: due, To: "q"}
		b.number++
		b.step(Delivered{Queue: Log, Tag: 1000 + b.number, Bundle: &bundle.Bundle{Number: b.number, Records: []bundle.Record{own}}, Own: true})
	}
	b.now.Clock.Earliest = b.now.Clock.Earliest.Add(-500 * time.Millisecond)
	write("a", 1800*time.Millisecond)
	b.at(b.now.Mono)
	write("b", 1600*time.Millisecond)
	b.run(1600*time.Millisecond - b.now.Mono)
	require.Equal(t, "deliver b", b.said())
	b.run(200 * time.Millisecond)
	require.Equal(t, "deliver a", b.said())
}

// TestLeader_Far: what is due later goes to slots, in bundles that are sorted, and down from there.
func TestLeader_Far(t *testing.T) {
	b := newBench(t, Config{})
	b.write(message("a", 90*time.Second), message("b", 70*time.Second))
	b.run(time.Second)
	require.Equal(t, "write 32s:ba, ack log:ab", b.said())
	b.run(69 * time.Second) // the slot of 64 to 96 s is opened at 58 s, that of 68 to 72 s at 64 s
	require.Equal(t, "write 4s:b, write 4s:a, ack 32s:ba, deliver b, ack 4s:b", b.said())
	b.run(20 * time.Second)
	require.Equal(t, "deliver a, ack 4s:a", b.said())
	require.Len(t, b.leader.entries, 1, "it is remembered until the turn is over")
	b.run(20 * time.Second)
	require.Empty(t, b.leader.entries)
	require.True(t, b.leader.Rests())
}

// TestLeader_Cancel: a change follows its message, and is acknowledged after it, when the turn is
// over.
func TestLeader_Cancel(t *testing.T) {
	b := newBench(t, Config{})
	b.write(message("a", 20*time.Second))
	b.run(time.Second)
	b.write(bundle.Record{Kind: bundle.Cancel, ID: "a", Due: at(20 * time.Second)})
	b.run(time.Second)
	require.Equal(t, "write 4s:a, ack log:a, write 4s:-a, ack log:-a", b.said())
	b.run(20 * time.Second)
	require.Equal(t, "ack 4s:a", b.said())
	b.run(20 * time.Second)
	require.Equal(t, "ack 4s:-a", b.said())
}

// TestLeader_Postpone: several Postpones of one ticket make a chain.
func TestLeader_Postpone(t *testing.T) {
	b := newBench(t, Config{})
	postpone := func(to time.Duration) bundle.Record {
		return bundle.Record{Kind: bundle.Postpone, ID: "a", Due: at(20 * time.Second), Next: at(to)}
	}
	b.write(message("a", 20*time.Second), postpone(50*time.Second), postpone(30*time.Second))
	b.run(21 * time.Second)
	require.Equal(t, "write 4s:a, write 4s:>a>a, ack log:a>a>a, write 4s:>a, write 4s:a, ack 4s:a", b.said())
	b.run(60 * time.Second)
	require.Contains(t, b.said(), "deliver a")

	b = newBench(t, Config{})
	b.write(message("a", 20*time.Second), postpone(50*time.Second), postpone(30*time.Second))
	b.run(18900 * time.Millisecond)
	b.said()
	for _, q := range Default().Slots() {
		b.stuck[q] = true
	}
	b.run(4 * time.Second)
	require.Equal(t, "write 4s:>a", b.said(), "the message follows when that is stored")
}

// TestLeader_Copies: two of the same id and due time are one, and so is one that comes when the
// other has been delivered.
func TestLeader_Copies(t *testing.T) {
	b := newBench(t, Config{})
	b.write(message("a", 20*time.Second))
	b.run(10 * time.Second)
	b.write(message("a", 20*time.Second))
	b.run(10 * time.Second)
	require.Equal(t, "write 4s:a, ack log:a, write 4s:a, ack log:a, deliver a, ack 4s:a, ack 4s:a", b.said())
	b.write(message("a", 20*time.Second))
	b.run(time.Second)
	require.Equal(t, "ack log:a", b.said())
}

// TestLeader_Silent: what a slot does not store goes to the one before it.
func TestLeader_Silent(t *testing.T) {
	b := newBench(t, Config{})
	own := Default().Slot(Default().at(0, start.Add(30*time.Second)))
	b.stuck[own] = true
	b.write(message("a", 30*time.Second))
	b.run(3 * time.Second)
	require.Equal(t, "write 4s:a", b.said())
	b.run(4 * time.Second)
	require.Equal(t, "write 4s:a, ack log:a", b.said())
}

// TestLeader_AllSilent: what no slot stores waits in memory, and comes when it is due, but for what may
// have come before it.
func TestLeader_AllSilent(t *testing.T) {
	b := newBench(t, Config{})
	for _, q := range Default().Slots() {
		b.stuck[q] = true
	}
	r := message("a", 30*time.Second)
	r.Ticket = false
	b.write(r)
	b.run(29 * time.Second)
	require.NotContains(t, b.said(), "deliver")
	b.run(orderFor + ackWithin)
	require.Equal(t, "deliver a, ack log:a", b.said())
}

// TestLeader_SetBack: what is in a slot for a turn that its ring does not reach was written before the
// broker's clock was set back. A new leader moves it, so that nothing of an earlier turn joins it.
func TestLeader_SetBack(t *testing.T) {
	b := newBench(t, Config{})
	const due = 30 * time.Minute
	turn := Default().at(1, start.Add(due))
	q := b.queues[Default().Slot(turn)]
	q.ready = append(q.ready, &bundle.Bundle{Writer: "before", Number: 1, InSlot: true, Turn: turn, Records: []bundle.Record{message("a", due)}})
	b.begin(Config{Tenure: "after"})
	b.run(5 * time.Second)
	require.Equal(t, "write 20m:a, ack 32s:a", b.said(), "it waits until that slot was looked at")
}

// TestLeader_ClockSet: it ends the tenure also if the broker's time was not known meanwhile.
func TestLeader_ClockSet(t *testing.T) {
	b := newBench(t, Config{})
	b.now.Mono += time.Second
	b.now.Known = false
	b.step(Tick{})
	b.at(b.now.Mono + time.Second)
	b.now.Clock.Earliest = b.now.Clock.Earliest.Add(-time.Minute)
	b.now.Clock.Latest = b.now.Clock.Earliest
	b.step(Tick{})
	require.Equal(t, "surrender: the broker's clock was set", b.said())
}

// TestLeader_Newer: a bundle of a later version is left to who can read it.
func TestLeader_Newer(t *testing.T) {
	b := newBench(t, Config{})
	b.step(Delivered{Queue: Log, Tag: 99, Err: fmt.Errorf("it is newer: %w", bundle.ErrNewer)})
	require.Contains(t, b.said(), "surrender: a bundle cannot be read")
}

// TestLeader_Surrenders: what is being delivered then is acknowledged.
func TestLeader_Surrenders(t *testing.T) {
	b := newBench(t, Config{})
	var flying []*Item
	b.late = func(e Deliver) { flying = append(flying, e.Item) }
	b.write(message("a", 2*time.Second))
	b.run(2 * time.Second)
	b.step(Delivered{Queue: Log, Tag: 99, Err: bundle.ErrNewer})
	require.Contains(t, b.said(), "deliver a, surrender")
	require.Len(t, flying, 1)
	b.step(Sent{flying[0], true})
	for _, e := range b.leader.Flush() {
		b.do(e)
	}
	require.Equal(t, "ack log:a", b.said())
}

// TestLeader_Foreign: what is no bundle is kept as it came.
func TestLeader_Foreign(t *testing.T) {
	b := newBench(t, Config{})
	b.full = true
	b.step(Delivered{Queue: Log, Tag: 99, Err: bundle.ErrForeign, Raw: "raw"})
	require.Contains(t, b.said(), "keep raw")
	b.full = false
	b.run(900 * time.Millisecond)
	require.Empty(t, b.said())
	b.run(200 * time.Millisecond)
	require.Equal(t, "keep raw", b.said(), "it is tried again")
	b.run(2 * time.Second)
	require.Empty(t, b.said())
}

// TestLeader_Overfull: one that holds more than its memory surrenders, unless its prefetch is the
// least already.
func TestLeader_Overfull(t *testing.T) {
	for prefetch, says := range map[int]string{8: "surrender: " + Overfull, LeastPrefetch: ""} {
		b := newBench(t, Config{Prefetch: prefetch, Memory: 1000})
		b.write(message("a", 90*time.Second))
		require.Empty(t, b.said())
		large := message("b", 90*time.Second)
		large.Payload = make([]byte, 1000)
		b.write(large)
		require.Equal(t, says, b.said())
	}
}

// TestLeader_Snapshot: counts of slots are exact; to the next leader too, unless a slot has more by
// then.
func TestLeader_Snapshot(t *testing.T) {
	turn := func(level int, due time.Duration) bundle.Turn { return Default().at(level, start.Add(due)) }
	b := newBench(t, Config{})
	b.write(message("a", 30*time.Second), message("b", 90*time.Second), message("c", 95*time.Second), message("d", time.Hour))
	b.run(2 * time.Second)
	b.write(message("e", 4900*time.Millisecond))
	b.run(time.Second)
	want := []bundle.TurnCount{
		{Turn: turn(0, 30*time.Second), Count: bundle.Count{Bundles: 1, Messages: 1, Exact: true, First: at(30 * time.Second), Last: at(30 * time.Second)}},
		{Turn: turn(1, 90*time.Second), Count: bundle.Count{Bundles: 1, Messages: 2, Exact: true, First: at(90 * time.Second), Last: at(95 * time.Second)}},
		{Turn: turn(3, time.Hour), Count: bundle.Count{Bundles: 1, Messages: 1, Exact: true, First: at(time.Hour), Last: at(time.Hour)}},
	}
	require.Equal(t, want, b.known.Turns)
	require.Equal(t, 1, b.known.Held.Messages)

	hour := b.queues[Default().Slot(turn(3, time.Hour))]
	hour.ready = append(hour.ready, hour.ready[0]) // the leader was lost before it knew that this is stored
	b.begin(Config{Tenure: "u"})
	want[2].Exact = false
	for i := range want {
		want[i].Bundles = b.known.Turns[i].Bundles // and marks
	}
	require.Equal(t, want, b.known.Turns)
	b.run(2 * time.Hour)
	require.Empty(t, b.known.Turns)
	require.Equal(t, bundle.Count{Bundles: b.known.Held.Bundles, Exact: true}, b.known.Held)
}

// TestLeader_Twice: 5,000 messages come to the slots of their turn in many runs, each of which has
// some of each moment. If the leader is lost when half is delivered, few come twice: those that
// were delivered since the last snapshot.
func TestLeader_Twice(t *testing.T) {
	const all, runs = 5000, 50
	b := newBench(t, Config{})
	for n := range runs {
		var records []bundle.Record
		for i := range all / runs {
			due := 40*time.Second + time.Duration(i*runs+n)*4*time.Second/all
			records = append(records, message(fmt.Sprint(i*runs+n), due))
		}
		b.write(records...)
		b.run(600 * time.Millisecond)
	}
	times := map[string]int{}
	count := func() {
		for _, did := range b.told {
			if strings.HasPrefix(did, "deliver ") {
				times[did]++
			}
		}
		b.told = nil
	}
	for len(times) < all/2 {
		b.run(20 * time.Millisecond)
		count()
	}
	for range 2 { // what is known of a bundle is known to the leader after the next as well
		b.leader.over = true
		b.begin(Config{Tenure: "u" + fmt.Sprint(len(times))})
		count()
	}
	b.run(10 * time.Second)
	count()
	require.Equal(t, all, len(times))
	twice := 0
	for _, n := range times {
		twice += n - 1
	}
	t.Logf("%d of %d came twice", twice, all)
	require.LessOrEqual(t, twice, 2*progressEvery)
}
