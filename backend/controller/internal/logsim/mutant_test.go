//go:build !race

package logsim

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/writer"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

var (
	among  = flag.Uint64("among", 1000, "how many seeds to find mutants with")
	choice = flag.String("mutant", "", "run this mutant instead of what is right, to see how it fails")
)

// chosen is the mutant to run: none unless one is asked for.
func chosen() mutant {
	for _, m := range append(mutants, mutant{}) {
		if m.name == *choice {
			return m
		}
	}
	panic("there is no such mutant: " + *choice)
}

var mutants = []mutant{
	{name: "it acknowledges a bundle before its last record", seed: 3, careless: true, events: func(t *tenure, e leader.Event) leader.Event {
		return ackAtOnce(t, e, func(b *bundle.Bundle) bool { return len(b.Records) > 1 })
	}},
	{name: "it acknowledges changes at once", seed: 13, careless: true, events: func(t *tenure, e leader.Event) leader.Event {
		return ackAtOnce(t, e, func(b *bundle.Bundle) bool {
			return b.Records[0].Kind == bundle.Cancel || b.Records[0].Kind == bundle.Postpone
		})
	}},
	{name: "a publisher gathers without bound", seed: 6, unbounded: true},
	{name: "it writes slots on another connection", seed: 6, counts: true, effects: elsewhere},
	{name: "it writes slots after its tenure", seed: 48, eager: true, effects: func(t *tenure, e leader.Effect) []leader.Effect {
		if t.conn.alive {
			return []leader.Effect{e}
		}
		return elsewhere(t, e)
	}},
	{name: "it forgets one of two with the same id", seed: 2, events: forgetsOne},
	{name: "it delivers both of two with the same id", seed: 1, events: deliversBoth},
	{name: "its marks overtake", seed: 127, effects: overtaking},
	{name: "its marks are too early", seed: 69, accepts: func(n leader.Now) leader.Now {
		n.Clock.Latest = n.Clock.Latest.Add(-leader.AcceptedBefore) // changes are accepted when marks have been written
		return n
	}},
	{name: "a late confirm is certain", seed: 35, confirmed: true},
	{name: "it loses the order", seed: 162, events: changed(func(_ *tenure, d leader.Delivered, records []bundle.Record) []bundle.Record {
		if d.Queue == leader.Log {
			slices.Reverse(records)
		}
		return records
	})},
	{name: "it does not read slots to their end", seed: 3, careless: true, effects: func(t *tenure, e leader.Effect) []leader.Effect {
		return markAtOnce(t, e, false)
	}},
	{name: "it delivers before the mark", seed: 21, careless: true, effects: func(t *tenure, e leader.Effect) []leader.Effect {
		return markAtOnce(t, e, true)
	}},
	{name: "it does not wait for confirms", seed: 527, careless: true, effects: func(t *tenure, e leader.Effect) []leader.Effect {
		if w, is := e.(leader.Write); is {
			t.w.after(0, func() { t.feed(leader.Written{ID: w.ID, Stored: true}) })
		}
		return []leader.Effect{e}
	}},
	{name: "it trusts every clock", seed: 40, events: func(_ *tenure, e leader.Event) leader.Event {
		if d, is := e.(leader.Delivered); is {
			d.Own = true
			return d
		}
		return e
	}},
	{name: "a wide reading is precise to it", seed: 2, now: func(n leader.Now) leader.Now {
		n.Clock.Earliest = n.Clock.Latest
		return n
	}},
	{name: "it believes every count", seed: 6, events: believes, counts: true},
	{name: "it takes all of a bundle for done", seed: 6, events: skips},
	{name: "it leads unbidden", seed: 2, careless: true, effects: func(t *tenure, e leader.Effect) []leader.Effect {
		if w, is := e.(leader.Write); is && w.To == leader.Log && !t.leader.Leads() {
			t.w.after(time.Second, func() { t.feed(leader.Delivered{Queue: leader.Log, Tag: 1, Bundle: w.Bundle}) })
		}
		return []leader.Effect{e}
	}},
}

// believes takes every count of the leader before for exact.
func believes(_ *tenure, e leader.Event) leader.Event {
	r, is := e.(leader.Recalled)
	if !is || r.Counts == nil {
		return e
	}
	r.Bundles = map[leader.Queue]int{}
	for _, c := range r.Counts.Turns {
		r.Bundles[leader.Default().Slot(c.Turn)] = c.Bundles
	}
	return r
}

// skips takes all of a bundle for done of which some records are.
func skips(_ *tenure, e leader.Event) leader.Event {
	if r, is := e.(leader.Recalled); is && r.Counts != nil {
		for i := range r.Counts.Progress {
			for n := range r.Counts.Progress[i].Records {
				r.Counts.Progress[i].Set(n)
			}
		}
	}
	return e
}

// ackAtOnce acknowledges some bundles when they come.
func ackAtOnce(t *tenure, e leader.Event, which func(*bundle.Bundle) bool) leader.Event {
	if d, is := e.(leader.Delivered); is && d.Bundle != nil && which(d.Bundle) {
		t.do(leader.Ack{Queue: d.Queue, Tag: d.Tag})
	}
	return e
}

// elsewhere writes on the connection of the publishers.
func elsewhere(t *tenure, e leader.Effect) []leader.Effect {
	w, is := e.(leader.Write)
	if !is || t.pub == nil {
		return []leader.Effect{e}
	}
	it := &item{bundle: w.Bundle, by: incarnation{t.process, t.number}, byLeader: true}
	t.write(t.pub, into(t.w.broker.named[w.To], it), func(o Outcome) { t.feed(leader.Written{ID: w.ID, Stored: o == Stored}) })
	return nil
}

// goOn has a leader go on for a while when its tenure has ended.
func (t *tenure) goOn() {
	end := t.w.now + 20*time.Second
	var tick func()
	tick = func() {
		if t.over = t.w.now > end; !t.over {
			t.feed(leader.Tick{})
			t.soon(50*time.Millisecond, tick)
		}
	}
	tick()
}

// overtaking has marks of the log stored before what is in the queue.
func overtaking(t *tenure, e leader.Effect) []leader.Effect {
	w, is := e.(leader.Write)
	if !is || w.To != leader.Log || w.Bundle.Records[0].Kind != bundle.Mark {
		return []leader.Effect{e}
	}
	q := t.w.broker.named[leader.Log]
	it := &item{bundle: w.Bundle, byLeader: true}
	t.write(t.conn, func(answer func(Outcome)) {
		q.items, q.returned = slices.Insert(q.items, 0, it), q.returned+1
		q.serve()
		answer(Stored)
	}, func(o Outcome) { t.feed(leader.Written{ID: w.ID, Stored: o == Stored}) })
	return nil
}

// markAtOnce has the marks of a leader come back at once from slots, or from the log.
func markAtOnce(t *tenure, e leader.Effect, log bool) []leader.Effect {
	w, is := e.(leader.Write)
	if is && (w.To == leader.Log) == log && w.Bundle.Records[0].Kind == bundle.Mark && t.leader.Leads() {
		t.w.after(time.Millisecond, func() { t.feed(leader.Delivered{Queue: w.To, Tag: 1_000_000, Bundle: w.Bundle}) })
	}
	return []leader.Effect{e}
}

// changed changes the records of bundles that come.
func changed(change func(*tenure, leader.Delivered, []bundle.Record) []bundle.Record) func(*tenure, leader.Event) leader.Event {
	return func(t *tenure, e leader.Event) leader.Event {
		d, is := e.(leader.Delivered)
		if !is || d.Bundle == nil || d.Bundle.Records[0].Kind == bundle.Mark {
			return e
		}
		b := *d.Bundle
		if b.Records = change(t, d, slices.Clone(b.Records)); len(b.Records) == 0 {
			t.do(leader.Ack{Queue: d.Queue, Tag: d.Tag})
			return nil
		}
		d.Bundle = &b
		return d
	}
}

// forgetsOne takes the message of another due time for the one that it knows.
var forgetsOne = changed(func(t *tenure, _ leader.Delivered, records []bundle.Record) []bundle.Record {
	return slices.DeleteFunc(records, func(r bundle.Record) bool {
		of := t.w.account.byID[r.ID]
		return r.Kind == bundle.Message && of.due != 0 && r.Due > of.due+1000 && of.handed < t.w.now
	})
})

// deliversBoth takes a message that comes again for another.
var deliversBoth = changed(func(t *tenure, d leader.Delivered, records []bundle.Record) []bundle.Record {
	for i, r := range records {
		if of := t.w.account.byID[r.ID]; d.Queue == leader.Log && r.Kind == bundle.Message && of.repeated && of.handed < t.w.now {
			records[i].Due++
		}
	}
	return records
})

// sendAll writes all that waits as one bundle.
func (p *process) sendAll(c *conn, r *writer.Record) {
	p.heap = append(p.heap, r)
	if len(p.heap) == 1 {
		p.soon(100*time.Millisecond, func() { p.sendHeap(c) })
	}
}

func (p *process) sendHeap(c *conn) {
	all := p.heap
	p.heap = nil
	if p.pub != c || len(all) == 0 {
		return
	}
	b := &bundle.Bundle{Writer: p.name}
	for _, r := range all {
		b.Records = append(b.Records, r.Record)
	}
	it := &item{bundle: b, by: incarnation{p, p.number}}
	p.w.account.sent(it)
	p.write(c, into(p.w.broker.named[leader.Log], it), func(o Outcome) {
		for _, r := range all {
			if p.pending[r] != nil {
				p.settle(r, o)
			}
		}
	})
}

// TestMutants: each is found by the seed that is written down, one of the first of a thousand.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if r := simulate(options{Seed: m.seed, mutant: m}); m.seed > 0 && len(r.Problems) > 0 {
				t.Logf("seed %d: %s", m.seed, r.Problems[0])
				return
			}
			for s := uint64(1); s <= *among; s++ {
				if r := simulate(options{Seed: s, mutant: m}); len(r.Problems) > 0 {
					t.Errorf("seed %d does not find it any more. Write down %d: %s", m.seed, s, r.Problems[0])
					return
				}
			}
			t.Error("it is not found")
		})
	}
}
