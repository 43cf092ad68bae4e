// Package logsim tries the machines of packages leader and writer against a model of a broker and of
// all that can break around it, in simulated time. One goroutine and one seed: a run that fails can
// be run again.
//
// A run has users at some processes who publish, cancel and postpone; each process is a candidate
// for the lead as well. Faults come and go. Then all is healed, what was due is awaited, and the
// account says what was promised and not kept.
package logsim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// options are what a run is made of.
type options struct {
	Seed   uint64
	Trace  io.Writer // a line for each event; nil: none
	Of     string    // the message that the trace is of; "": all
	mutant mutant
}

// A mutant is a protocol with a fault: what a leader or a user would do wrong is done wrong around
// it. So there is no switch in what is proved. Nil functions change nothing.
type mutant struct {
	name      string
	seed      uint64 // of a run that finds it
	config    func(*leader.Config)
	events    func(t *tenure, e leader.Event) leader.Event     // what the leader is told
	effects   func(t *tenure, e leader.Effect) []leader.Effect // what it does
	now       func(leader.Now) leader.Now                      // of leaders
	accepts   func(leader.Now) leader.Now                      // of who asks whether a change is in time
	confirmed bool                                             // a late confirm is certain
	eager     bool                                             // a leader goes on when its tenure has ended
	careless  bool                                             // it acknowledges twice, which brokers do not forgive
	unbounded bool                                             // a publisher gathers without bound
	counts    bool                                             // its counts are checked
}

// A result is what came of a run.
type result struct {
	Problems []string
	stats    stats
}

// A world is all there is. Its time is the true one, since the run began.
type world struct {
	options
	rand   *rand.Rand
	now    time.Duration
	events []event
	count  int64         // orders events of the same moment
	busy   time.Duration // when the last was

	plan      plan
	rings     leader.Rings
	broker    *broker
	processes []*process
	account   *account
	clock     clock
	split     time.Duration // until then two may lead
}

// An event happens at a time.
type event struct {
	at    time.Duration
	count int64
	do    func()
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.count < other.count
}

// after has something happen later.
func (w *world) after(d time.Duration, do func()) {
	w.count++
	w.events = append(w.events, event{w.now + max(d, 0), w.count, do})
	h := w.events
	for i := len(h) - 1; i > 0; { // a heap of our own: this is where the time goes
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// mostEvents is how many a run may have: if there are more, something goes round.
const mostEvents = 3_000_000

func (w *world) pop() event {
	if w.account.Events++; w.account.Events == mostEvents {
		w.account.problem("something goes round")
	}
	h := w.events
	top, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	w.events = h
	return top
}

// restless is how long something that has happened may have a machine do more: it acknowledges
// within ackSoon. It is less than a tick of an idle machine, which opens and closes a slot every
// other second: else chance decided whether time is ever skipped.
const restless = 500 * time.Millisecond

// runUntil lets time pass. The ticks of the processes are no events: while nothing else is to
// happen, and nothing waits that could be due, time is skipped.
func (w *world) runUntil(end time.Duration) {
	for w.now < end && len(w.account.problems) == 0 {
		next := end
		if len(w.events) > 0 {
			next = min(next, w.events[0].at)
		}
		var first *process
		for _, p := range w.processes {
			if p.ticks() && (first == nil || p.nextTick < first.nextTick) {
				first = p
			}
		}
		switch until := w.quiet(next - 30*time.Second); {
		case until > w.now:
			w.trace("world", "skip", "%v", until-w.now)
			w.account.Skipped += until - w.now
			w.now = until
		case first != nil && first.nextTick < next:
			w.now = max(w.now, first.nextTick)
			first.tick()
		case len(w.events) > 0 && w.events[0].at <= end:
			e := w.pop()
			w.now = max(w.now, e.at)
			w.busy = w.now
			e.do()
		default:
			w.now = end
		}
	}
}

// quiet returns a time, at most until, before which nothing can happen; 0: there is none.
func (w *world) quiet(until time.Duration) time.Duration {
	if until-w.now < 10*time.Second || w.now-w.busy <= restless {
		return 0
	}
	led := false
	for _, p := range w.processes {
		if p.tenure == nil || p.tenure.over || len(p.out.queue) > 0 {
			return 0
		}
		if p.tenure.leader.Leads() && !p.tenure.leader.Rests() || !p.now().Known {
			return 0
		}
		led = led || p.tenure.leader.Leads()
	}
	if !led {
		return 0
	}
	shown := w.clock.shown()
	for _, q := range w.broker.queues {
		for _, it := range q.items {
			if q.name == leader.Log || it.bundle == nil {
				return 0
			}
			if t := it.bundle.Turn; it.bundle.InSlot && it.bundle.Records[0].Kind != bundle.Mark {
				opens := w.rings.Opens(t).Add(-15 * time.Second).Sub(shown)
				until = min(until, w.now+opens)
			}
		}
	}
	if until-w.now < 10*time.Second {
		return 0
	}
	return until
}

// trace writes a line: the time, what the broker's clock shows, who, and what. Of one message it
// writes what names that, and what happens to processes and the broker.
func (w *world) trace(who, event, format string, args ...any) {
	if w.Trace == nil {
		return
	}
	what := fmt.Sprintf(format, args...)
	if w.Of == "" || slices.Contains(strings.FieldsFunc(what, func(r rune) bool { return r == ' ' || r == ':' || r == ',' }), w.Of) || forAll[event] {
		fmt.Fprintf(w.Trace, "%s %s %-8s %-10s %s\n", since(w.now), w.clock.shown().UTC().Format("02T15:04:05.000"), who, event, what)
	}
}

// forAll are the events that concern all messages.
var forAll = map[string]bool{
	"start": true, "kill": true, "wake": true, "joined": true, "lost": true, "begin": true, "end": true, "notice": true, "skip": true,
	"breaks": true, "repairs": true, "closes": true, "is up": true, "PROBLEM": true,
}

// since is a time of a run, as in a trace.
func since(d time.Duration) string {
	return fmt.Sprintf("%dd %02d:%02d:%09.6f", d/day, d/time.Hour%24, d/time.Minute%60, (d % time.Minute).Seconds())
}

// between is a random duration, short the same with most of them near the beginning.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rand.Int64N(int64(most-least)+1))
}

func (w *world) short(least, most time.Duration) time.Duration {
	f := w.rand.Float64()
	return least + time.Duration(f*f*f*f*float64(most-least))
}

func (w *world) chance(p float64) bool { return w.rand.Float64() < p }

// A clock is that of the broker. It drifts, and is set now and then.
type clock struct {
	w       *world
	begin   time.Time
	ppm     int64
	offset  time.Duration // by all steps
	forward time.Duration // by the steps forward,
	settled time.Duration // and less by the last step, which makes early what some have not noticed,
	stepped time.Duration // until then
}

// noticed is what a message that is published now is not early by: forward, without a step that some
// may not have noticed. After one forward who publishes may be behind, after one back who delivers.
func (c *clock) noticed() time.Duration {
	if c.w.now < c.stepped {
		return c.settled
	}
	return c.forward
}

// passed is how much time has passed by the broker's clock, had it not been set.
func (c *clock) passed(at time.Duration) time.Duration { return at + at*time.Duration(c.ppm)/1_000_000 }

func (c *clock) shown() time.Time { return c.begin.Add(c.passed(c.w.now) + c.offset) }

func newWorld(o options) *world {
	w := &world{options: o, rand: rand.New(rand.NewPCG(o.Seed, 0)), rings: leader.Default()}
	w.choosePlan()
	w.account = &account{w: w, byID: map[string]*record{}}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(w.between(0, 365*24*time.Hour))
	w.clock = clock{w: w, begin: begin, ppm: w.rand.Int64N(101) - 50}
	w.broker = newBroker(w)
	for i := range w.plan.processes {
		newProcess(w, i)
	}
	return w
}

// after is the true time when so much time has passed by the broker's clock.
func (c *clock) after(d time.Duration) time.Duration {
	return c.w.now + d - d/1_000_000*time.Duration(c.ppm)
}
