package native

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// An asking is one proof, by one connection. It decides only: what it asks goes to publish, and
// what comes back to came.
type asking struct {
	names
	log    *slog.Logger
	clocks []*brokertime.Interval // one a queue
	gate   *gate
	conn   *amqp091.Connection

	// publish sends a question to a queue: a message with our header and, unless it is a marker,
	// the one that hides it.
	publish func(queue int, e message.Envelope, hidden amqp091.Table) error

	ladders []ladder            // one a queue
	sent    map[string]question // what has not come back, by its header
}

// A question is a message with a time, or a marker, which has none.
type question struct {
	queue, round int
	rung         int // of its ladder, from 1
	time         time.Time
}

// A ladder is the questions to one queue in one round, and the marker behind them.
type ladder struct {
	round    int       // how many markers have come back
	from, to time.Time // between which the clock of the queue should be; zero: nothing is known
	times    []time.Time
	passed   int // how many questions have come back before the marker: they were not hidden, or not long
	last     int // the highest of them

	sent, marked time.Time // before the questions were, and when the last marker came back

	close bool // from and to are: there is no further round
	done  bool // a question has come back behind the last marker, and has told the time
	err   error
}

func (l *ladder) failed() bool { return l.err != nil }

// begin asks all queues.
func (a *asking) begin() error {
	a.ladders, a.sent = make([]ladder, len(a.clocks)), map[string]question{}
	for queue, clock := range a.clocks {
		if r, ok := clock.Read(); ok { // and the queue gets a question later than it is sent
			l := &a.ladders[queue]
			l.from = r.Earliest.Add(-time.Millisecond)
			l.to = r.Latest.Add(time.Millisecond + clock.RoundTrip()/2)
		}
		if err := a.ask(queue); err != nil {
			return err
		}
	}
	return nil
}

// settled reports whether nothing more is to be learned.
func (a *asking) settled() bool {
	return !slices.ContainsFunc(a.ladders, func(l ladder) bool { return !l.failed() && !l.done })
}

// err returns what has failed, for any queue.
func (a *asking) err() (err error) {
	for _, l := range a.ladders {
		err = errors.Join(err, l.err)
	}
	return err
}

// ask begins a round.
func (a *asking) ask(queue int) error {
	l := &a.ladders[queue]
	l.times, l.sent, l.passed, l.last = rungs(l.from, l.to), time.Now(), 0, 0
	for rung := 1; rung <= len(l.times)+1; rung++ {
		q, hidden := question{queue: queue, round: l.round, rung: rung}, amqp091.Table(nil)
		if rung <= len(l.times) {
			q.time = l.times[rung-1]
			hidden = amqp091.Table{message.NativeDelay: q.time.UnixMilli()}
		}
		e := message.NewEnvelope(time.Now(), 0, "")
		a.sent[e.String()] = q
		if err := a.publish(queue, e, hidden); err != nil {
			return err
		}
	}
	return nil
}

const (
	wider    = 8                    // by so much the next round looks further
	furthest = 2 * time.Hour        // a queue that hides nothing so far ahead hides nothing
	oldest   = 365 * 24 * time.Hour // nor is a clock so far behind

	mostRounds = 16 // a slow network may not tell the time any better
)

// rungs are the times of a round's questions, ascending, in whole milliseconds: some from one time
// to another, and one above them that is hidden even if the broker takes its time.
func rungs(from, to time.Time) []time.Time {
	if to.IsZero() {
		return nil
	}
	var times []time.Time
	width := to.Sub(from)
	above := width + min(wider*width, furthest)
	for _, after := range []time.Duration{0, width / 4, width / 2, width * 3 / 4, width, above} {
		times = append(times, time.UnixMilli(from.Add(after+time.Millisecond-1).UnixMilli()))
	}
	return slices.Compact(times)
}

// came takes a message that has come back.
func (a *asking) came(d *amqp091.Delivery) error {
	header, _ := d.Headers[delayer.Header].(string)
	q, ours := a.sent[header]
	delete(a.sent, header) // it may come twice
	l := &a.ladders[q.queue]
	switch isMarker := q.time.IsZero(); {
	case !ours || l.failed(): // nothing depends on it
	case l.close && q.time.After(l.to.Add(time.Since(l.marked))):
		a.ignored(q.queue) // it comes early
	case !isMarker && q.round < l.round:
		if a.gate.pass(a.conn, q.queue) {
			a.log.Info("proved that the broker hides messages until they are due", about(a.conn)...)
		}
		if l.close && !l.done {
			a.learn(q.queue, q.time)
		}
	case !isMarker: // one that was hidden for a millisecond may overtake those before it
		l.passed++
		l.last = max(l.last, q.rung)
	case l.passed < l.last:
		l.err = fmt.Errorf("what waits in queue %s comes in another order: a node fails, or the queue has another leader", a.wait(q.queue))
	default:
		l.round++
		a.narrow(q.queue, message.LastDeath(d.Headers))
		if !l.failed() && !l.close {
			return a.ask(q.queue)
		}
	}
	return nil
}

// narrow finds where the clock of a queue is when a marker has come back. What has not come back
// before it was hidden, or is lost, so nothing is learned yet. If all questions have passed, or
// none, the clock is not where it was thought to be, and the next round looks further ahead, or
// back.
func (a *asking) narrow(queue int, dated time.Time) {
	l := &a.ladders[queue]
	rungs := len(l.times)
	l.marked = time.Now()
	took, width := l.marked.Sub(l.sent), max(l.to.Sub(l.from), 10*time.Millisecond)
	switch {
	case rungs == 0:
		if dated.Year() < 2200 { // else to compute with it could overflow
			l.from, l.to = dated, dated.Add(time.Second+took) // if the clocks of its node agree
		}
	case l.passed == rungs && width > furthest:
		a.ignored(queue)
	case l.passed == rungs:
		l.from = l.times[rungs-1]
		l.to = l.from.Add(wider * width)
	case l.passed > 0:
		l.from, l.to = l.times[l.passed-1], l.times[l.passed].Add(took)
		l.close = l.to.Sub(l.from) <= 2*time.Millisecond+2*took || l.round >= mostRounds
	case width < oldest:
		l.to = l.times[0].Add(took)
		l.from = l.to.Add(-wider * width)
	}
	if l.round >= mostRounds && !l.failed() && !l.close {
		l.err = a.unknown(queue)
	}
}

// learn learns the time from a question that has come back behind the last marker.
func (a *asking) learn(queue int, until time.Time) {
	l, clock := &a.ladders[queue], a.clocks[queue]
	if by := clock.Learn(l.sent, l.marked, l.from, until); by != 0 {
		a.log.Warn("the clock of a queue does not agree with what was known: was it set, or does another node lead the queue?",
			"queue", a.wait(queue), "ahead", by.Round(time.Millisecond))
	}
	if _, l.done = clock.Read(); !l.done {
		l.err = a.unknown(queue)
	}
}

func (a *asking) unknown(queue int) error {
	return fmt.Errorf("the clock of queue %s cannot be learned", a.wait(queue))
}

// errIgnored is in the chain of the error of a queue that does not hide.
var errIgnored = errors.New("a message that must wait in queue")

// ignored notes that a queue does not hide.
func (a *asking) ignored(queue int) {
	a.gate.ignored(a.conn, queue)
	a.ladders[queue].err = fmt.Errorf("%w %s was delivered at once: "+
		"this node, or a member of that queue, is older than RabbitMQ 4.4 (rabbitmq-queues quorum_status must show machine version 9); "+
		"or the clock of its leader is hours ahead", errIgnored, a.wait(queue))
}
