package leader

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A bench is a leader with queues that store and deliver at once, unless one is stuck.
type bench struct {
	t      *testing.T
	leader *Leader
	now    Now
	queues map[Queue]*store
	stuck  map[Queue]bool // these store nothing
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
	b.queues[Log].consumed = LogPrefetch
	b.at(0)
	cfg.Rings, cfg.Tenure = Default(), "t"
	b.leader = New(cfg, b.now)
	b.run(time.Second) // it leads, and has looked at all slots
	require.True(t, b.leader.Leads())
	b.said()
	return b
}

func (b *bench) at(d time.Duration) {
	shown := start.Add(d)
	b.now = Now{Mono: d, Known: true, Clock: brokertime.Reading{Earliest: shown, Latest: shown, From: shown}}
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
		q := b.queues[e.Queue]
		q.consumed = 0
		for tag := uint64(1); tag <= q.tag; tag++ {
			if back := q.unacked[tag]; back != nil {
				q.ready = append([]*bundle.Bundle{back}, q.ready...)
			}
		}
		q.tag, q.unacked = 0, map[uint64]*bundle.Bundle{}
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
		b.step(Written{e.ID, Stored})
		b.deliver(e.To)
	case Deliver:
		b.told = append(b.told, "deliver "+e.Item.ID)
		b.step(Sent{e.Item, Stored})
	case Keep:
		b.told = append(b.told, fmt.Sprintf("keep %v", e.Item.Raw))
		b.step(Sent{e.Item, Stored})
	case Surrender:
		b.told = append(b.told, "surrender: "+e.Why)
	}
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
}

// TestLeader_Copies: two of the same id and due time are one, and so is one that comes when the other
// has been delivered.
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

// TestLeader_Newer: a bundle of a later version is left to who can read it.
func TestLeader_Newer(t *testing.T) {
	b := newBench(t, Config{})
	b.step(Delivered{Queue: Log, Tag: 99, Err: fmt.Errorf("it is newer: %w", bundle.ErrNewer)})
	require.Contains(t, b.said(), "surrender: a bundle cannot be read")
}

// TestLeader_Foreign: what is no bundle is kept as it came.
func TestLeader_Foreign(t *testing.T) {
	b := newBench(t, Config{})
	b.step(Delivered{Queue: Log, Tag: 99, Err: bundle.ErrForeign, Raw: "raw"})
	require.Contains(t, b.said(), "keep raw")
}

// TestLeader_Overfull: one that holds more than its memory surrenders, unless its prefetch is the
// least already.
func TestLeader_Overfull(t *testing.T) {
	for prefetch, says := range map[int]string{8: "surrender: " + Overfull, LeastPrefetch: ""} {
		b := newBench(t, Config{PrefetchLog: prefetch, Memory: 1000})
		b.write(message("a", 90*time.Second))
		require.Empty(t, b.said())
		large := message("b", 90*time.Second)
		large.Payload = make([]byte, 1000)
		b.write(large)
		require.Equal(t, says, b.said())
	}
}
