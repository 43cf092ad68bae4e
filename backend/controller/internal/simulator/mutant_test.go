//go:build !race

package simulator

import (
	"flag"
	"testing"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
)

// early acknowledges what is being published before it is stored.
type early struct{ *tenure }

func (s early) ack(m *wheel.Message) {
	d := m.Body.(*delivery)
	if d.closed {
		return
	}
	s.conn.toBroker(func() { d.channel.ack(d.tag, false) })
}

func (s early) Move(m *wheel.Message, to wheel.Turn, within time.Duration) {
	s.ack(m)
	s.tenure.Move(m, to, within)
}

func (s early) Deliver(m *wheel.Message) {
	s.ack(m)
	s.tenure.Deliver(m)
}

// overtaking has marks stored before what is in the queue.
type overtaking struct{ *tenure }

func (s overtaking) Mark(to wheel.Slot, id wheel.MarkID) {
	q := s.w.broker.named[to]
	it := &item{msg: wheel.Message{Kind: wheel.Mark, Mark: id}}
	s.write(s.pub, always, func(func(wheel.Outcome)) {
		q.returned = append([]*item{it}, q.returned...)
		q.serve()
	}, func(wheel.Outcome) {})
}

// wider consumes anew with another channel if the prefetch is another.
type wider struct{ *tenure }

func (s wider) Consume(from wheel.Slot, prefetch int) {
	if s.channels[from] != nil {
		s.tenure.Release(from)
	}
	s.tenure.Consume(from, prefetch)
}

// trusting believes to have lost nothing.
type trusting struct{ *tenure }

func (s trusting) Verify() {
	s.w.after(0, func() {
		if !s.over {
			s.machine.Verified(s.sees())
		}
	})
}

// blind finds all slots empty.
type blind struct{ *tenure }

func (s blind) Count(of wheel.Slot) {
	s.w.after(time.Millisecond, func() {
		if !s.over {
			s.machine.Counted(s.sees(), of, 0, 0, true)
		}
	})
}

// reading is busy with what was changed before: as long as it reads that, it writes no marks.
type reading struct {
	*tenure
	since time.Duration
}

func (s reading) Mark(to wheel.Slot, id wheel.MarkID) {
	if s.w.now-s.since > 90*time.Second {
		s.tenure.Mark(to, id)
	}
}

// certain takes what may have failed for stored.
type certain struct{ *tenure }

func (s certain) Deliver(m *wheel.Message) {
	s.tenure.Deliver(m)
	s.machine.Stored(s.sees(), m, wheel.Accepted)
}

// stingy takes no more of a slot while half of the memory is full, whatever it has of that slot.
type stingy struct{ *tenure }

func (s stingy) Consume(from wheel.Slot, prefetch int) {
	if s.channels[from] != nil {
		if _, held := s.machine.Held(); held >= s.w.plan.budget/2 {
			return
		}
	}
	s.tenure.Consume(from, prefetch)
}

// queueing has one queue of attempts for all destinations: what is refused is tried again before
// anything else.
type queueing struct {
	*tenure
	waiting []*wheel.Message // the first is being tried
}

func (s *queueing) Deliver(m *wheel.Message) {
	if s.waiting = append(s.waiting, m); len(s.waiting) == 1 {
		s.attempt()
	}
}

func (s *queueing) attempt() {
	m := s.waiting[0]
	s.deliver(m, func(o wheel.Outcome) {
		if o == wheel.Refused {
			s.soon(time.Second, s.attempt)
			return
		}
		s.stored(m)(o)
		if s.waiting = s.waiting[1:]; len(s.waiting) > 0 {
			s.attempt()
		}
	})
}

// hungry takes messages by their number, however large they are.
type hungry struct{ *tenure }

func (s hungry) Consume(from wheel.Slot, prefetch int) {
	s.tenure.Consume(from, max(prefetch, 1000))
}

// writesAnew writes each change once more, an hour after it came.
func writesAnew(t *tenure, ch *channel, _ uint64, m *wheel.Message) {
	if m.Kind == wheel.Change && t.pub.open {
		again := *m.Body.(*delivery).item
		t.soon(time.Hour, func() { t.write(t.pub, always, into(ch.queue, &again), func(wheel.Outcome) {}) })
	}
}

// atOnce acknowledges messages of a kind when they come.
func atOnce(kind wheel.Kind) func(*tenure, *channel, uint64, *wheel.Message) {
	return func(t *tenure, ch *channel, tag uint64, m *wheel.Message) {
		if m.Kind == kind {
			t.conn.toBroker(func() { ch.ack(tag, false) })
		}
	}
}

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
	{name: "it acknowledges before a message is stored", seed: 17, careless: true, shell: func(t *tenure) wheel.Shell { return early{t} }},
	{name: "it acknowledges changes at once", seed: 9, careless: true, received: atOnce(wheel.Change)},
	{name: "its marks overtake", seed: 21, shell: func(t *tenure) wheel.Shell { return overtaking{t} }},
	{name: "its marks are too early", seed: 14, accepts: func(n wheel.Now) wheel.Now {
		n.Clock.From = n.Clock.From.Add(-wheel.AcceptedBefore) // changes are accepted when marks have been written
		return n
	}},
	{name: "a prefetch drops what is in hand", seed: 18, careless: true, shell: func(t *tenure) wheel.Shell { return wider{t} }},
	{name: "it delivers although it may have lost all", seed: 145, shell: func(t *tenure) wheel.Shell { return trusting{t} }},
	{name: "it finds nothing between turns", seed: 2, shell: func(t *tenure) wheel.Shell { return blind{t} }},
	{name: "it does not wait for confirms", seed: 1, careless: true, shell: func(t *tenure) wheel.Shell { return certain{t} }},
	{name: "it closes slots too soon", seed: 88, config: func(c *wheel.Config) {
		c.Wheel = append(wheel.Wheel{}, c.Wheel...)
		c.Wheel[0].Reach += 82 * time.Second
	}},
	{name: "it forgets laps", seed: 1, config: func(c *wheel.Config) {
		c.Wheel = append(wheel.Wheel{}, c.Wheel...)
		c.Wheel[0].Slots, c.Wheel[0].Reach = 40, 60*time.Second
	}},
	{name: "it trusts every clock", seed: 3, received: func(_ *tenure, _ *channel, _ uint64, m *wheel.Message) { m.Own = m.OwnDue != 0 }},
	{name: "a wide reading is precise to it", seed: 6, now: func(n wheel.Now) wheel.Now {
		n.Clock.Earliest = n.Clock.Latest
		return n
	}},
	{name: "a late confirm is certain", seed: 412, confirmed: func(wheel.Fate) wheel.Fate { return wheel.Certain }},
	{name: "it reads for 90 s before it proves anything", seed: 1, shell: func(t *tenure) wheel.Shell { return reading{t, t.w.now} }},
	{name: "changes keep away the mark behind them", seed: 52, shell: func(t *tenure) wheel.Shell { return stingy{t} }},
	{name: "one queue of attempts for all destinations", seed: 20, shell: func(t *tenure) wheel.Shell { return &queueing{tenure: t} }},
	{name: "it takes whatever comes", seed: 52, hungry: true, shell: func(t *tenure) wheel.Shell { return hungry{t} }},
	{name: "it writes changes anew", seed: 1, received: writesAnew},
	{name: "it leads unbidden", seed: 2, careless: true, shell: func(t *tenure) wheel.Shell {
		t.w.after(time.Second, func() {
			if !t.over {
				t.machine.Delivered(t.sees(), wheel.Intake, 1, &wheel.Message{Kind: wheel.Summons})
			}
		})
		return t
	}},
}

// TestMutants: each is found by the seed that is written down, one of the first of a thousand.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
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
