package native

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// ignored is the error of a queue that does not hide.
func (p *prover) ignored(queue int) error {
	return fmt.Errorf("%w %s was delivered at once: this node, or a member of that queue, is older than RabbitMQ 4.4 "+
		"(rabbitmq-queues quorum_status must show machine version 9); or the clock of its leader is hours ahead", errIgnored, p.wait(queue))
}

// prove proves that the node of a connection and each queue hide messages. It narrows what is known
// of the clock of each queue until that is known to milliseconds. The caller has the turn.
func (p *prover) prove(ctx context.Context, g *gate, conn *amqp091.Connection) error {
	if err := p.back.Open(ctx); err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close() //nolint:errcheck // fails only if it is closed already
	const most = 16  // messages to a queue in a round: with less room, what is returned would hold up the connection
	a := &asking{
		prover: p, gate: g, ch: ch,
		returns: ch.NotifyReturn(make(chan amqp091.Return, most*len(p.clocks))), closed: ch.NotifyClose(make(chan *amqp091.Error, 1)),
		ladders: make([]ladder, len(p.clocks)), sent: map[string]question{},
	}
	const mostRounds, narrowing = 24, 10 // a slow network may not tell it any better
	for i := range mostRounds {
		a.content = i >= narrowing
		done, err := a.round(ctx)
		if err != nil || done {
			return err
		}
	}
	return errors.New("its clock cannot be learned")
}

// An asking is one proof.
type asking struct {
	*prover
	gate    *gate
	ch      *amqp091.Channel
	returns <-chan amqp091.Return
	closed  <-chan *amqp091.Error

	content bool                // with what is known of the clocks
	ladders []ladder            // one a queue
	sent    map[string]question // of this round, by the content of our header
}

// A question is a message with a time, or the marker, which is the last of its queue.
type question struct {
	queue int
	at    int // index into the times of its ladder
}

// A ladder is the questions to one queue in one round.
type ladder struct {
	times  []time.Time // ascending
	sent   brokertime.Moment
	asked  bool // the marker has come back
	passed int  // how many questions had come back before it: they were not hidden, or not long
	last   int  // how many there are up to the last of them
	proved bool // one that was hidden has come back too
	reach  int  // how often none was hidden: index into reaches
}

// reaches are how far ahead of a clock the last question looks. A broker that is slow has not taken
// it before its time, and a clock may be ahead of what was thought. Beyond the last one it is a
// broker that hides nothing.
var reaches = [...]time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, 10 * time.Minute, 2 * time.Hour}

// round asks each queue once. done: all are proved, and all clocks are known.
func (a *asking) round(ctx context.Context) (done bool, err error) {
	clear(a.sent)
	for queue := range a.ladders {
		if err := a.ask(queue); err != nil {
			return false, err
		}
	}
	if err := a.await(ctx, func(l *ladder) bool { return l.asked }); err != nil {
		return false, err
	}
	fine := true
	for queue := range a.ladders {
		l := &a.ladders[queue]
		if l.passed == len(l.times) && l.passed > 0 {
			if l.reach++; l.reach == len(reaches) {
				return false, a.ignored(queue)
			}
		}
		_, ok := a.clocks[queue].Read()
		fine = fine && l.passed < len(l.times) && (a.fine(queue) || ok && a.content)
	}
	if !fine {
		return false, nil
	}
	return true, a.await(ctx, func(l *ladder) bool { return l.proved })
}

// fine reports whether the clock of a queue is known as well as the way to it allows.
func (p *prover) fine(queue int) bool {
	r, ok := p.clocks[queue].Read()
	return ok && r.Latest.Sub(r.Earliest) <= 2*time.Millisecond+p.clocks[queue].RoundTrip()*3/2
}

// ask publishes questions and the marker to a queue.
func (a *asking) ask(queue int) error {
	l := &a.ladders[queue]
	*l = ladder{times: a.times(queue, l.reach), reach: l.reach, sent: a.clocks[queue].Now()}
	for at := range len(l.times) + 1 {
		e := message.NewEnvelope(time.Now(), 0, "")
		a.sent[e.String()] = question{queue, at}
		var hidden amqp091.Table
		if at < len(l.times) {
			hidden = amqp091.Table{message.NativeDelay: l.times[at].UnixMilli()}
		}
		msg := message.Seal(amqp091.Publishing{DeliveryMode: amqp091.Transient}, e, hidden, a.back.Queue(), forgottenKey)
		const mandatory, immediate = true, false
		if err := a.ch.Publish(a.enter(), a.gate.keys[queue], mandatory, immediate, msg); err != nil {
			return err
		}
	}
	return nil
}

// times are those of the questions to a queue, ascending, in whole milliseconds.
func (p *prover) times(queue, reach int) []time.Time {
	clock := p.clocks[queue]
	r, _ := clock.Read()
	from := r.Earliest
	var offsets []time.Duration // of from
	if known(r.Earliest) && known(r.Latest) {
		from = from.Add(-time.Millisecond)
		width := r.Latest.Add(time.Millisecond + clock.RoundTrip()/2).Sub(from) // the queue gets them later than they are sent
		steps := 5
		if p.fine(queue) {
			steps = 3
		}
		for i := range steps {
			offsets = append(offsets, width*time.Duration(i)/time.Duration(steps))
		}
		offsets = append(offsets, width, width+reaches[reach])
	} else { // nothing is known, or one end of it
		switch {
		case known(r.Latest):
			from = r.Latest
		case known(from):
		case p.dated[queue].IsZero():
			return nil // the marker tells
		default:
			from = p.dated[queue].Add(2 * time.Second)
		}
		offsets = append(offsets, -24*time.Hour, -2*time.Hour, -time.Minute, -4*time.Second, -2*time.Second, -time.Second, -time.Second/2, 0)
		offsets = append(offsets, reaches[:reach+1]...)
	}
	times := make([]time.Time, len(offsets))
	for i, offset := range offsets {
		times[i] = time.UnixMilli(from.Add(offset + time.Millisecond - 1).UnixMilli())
	}
	return slices.Compact(times)
}

// never and always are what a clock shows neither now nor soon: nothing is known of that side.
var never, always = time.UnixMilli(math.MaxInt64 / int64(2*time.Millisecond)), time.Unix(0, 0)

func known(t time.Time) bool {
	const century = 100 * 365 * 24 * time.Hour
	return t.Sub(always) > 20*365*24*time.Hour && t.Sub(always) < century
}

// await takes what comes back until it is enough for each queue.
func (a *asking) await(ctx context.Context, enough func(*ladder) bool) error {
	for slices.ContainsFunc(a.ladders, func(l ladder) bool { return !enough(&l) }) {
		select {
		case d, ok := <-a.back.Messages():
			if !ok {
				a.back.Ended()
				return amqp091.ErrClosed
			}
			if err := a.came(&d); err != nil {
				return err
			}
		case <-a.returns:
			return fmt.Errorf("%w: a waiting queue was deleted", broker.ErrReturned)
		case err := <-a.closed:
			if err == nil {
				return amqp091.ErrClosed
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// came takes a message that has come back.
func (a *asking) came(d *amqp091.Delivery) error {
	header, _ := d.Headers[delayer.Header].(string)
	q, ours := a.sent[header]
	delete(a.sent, header) // it may come twice
	if !ours {
		return nil // of another round
	}
	l, clock := &a.ladders[q.queue], a.clocks[q.queue]
	if q.at < len(l.times) { // with a time: before it, as far as is known?
		if r, ok := clock.Read(); ok && r.Latest.Before(l.times[q.at]) {
			return a.ignored(q.queue)
		}
	}
	switch {
	case q.at < len(l.times) && !l.asked: // one that was hidden for a millisecond may overtake those before it
		l.passed++
		l.last = max(l.last, q.at+1)
	case q.at < len(l.times):
		l.proved = true
	case l.passed < l.last:
		return fmt.Errorf("what waits in queue %s comes in another order: a node fails, or the queue has another leader", a.wait(q.queue))
	default:
		l.asked = true
		a.learn(q.queue, d)
	}
	return nil
}

// learn learns the time from a marker that has come back.
func (a *asking) learn(queue int, d *amqp091.Delivery) {
	l, received := &a.ladders[queue], a.clocks[queue].Now()
	if len(l.times) == 0 {
		a.dated[queue] = message.LastDeath(d.Headers)
		return
	}
	from, to := always, never
	if l.passed > 0 {
		from = l.times[l.passed-1]
	}
	if l.passed < len(l.times) {
		to = l.times[l.passed]
	}
	if by := a.clocks[queue].Learn(l.sent, received, from, to); by != 0 {
		a.log.Warn("the clock of a queue does not agree with what was known: was it set, or does another node lead the queue? Asking anew",
			"queue", a.wait(queue), "ahead", by.Round(time.Millisecond))
	}
}
