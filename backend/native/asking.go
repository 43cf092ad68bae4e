package native

import (
	"context"
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

// prove asks each queue by a connection until that is enough. What is proved, and what a clock shows,
// is known at once. The caller has the turn.
func (p *prover) prove(ctx context.Context, g *gate, conn *amqp091.Connection, enough func(*asking) bool) error {
	if err := p.back.Open(ctx); err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close() //nolint:errcheck // fails only if it is closed already
	const most = 16  // messages to a queue in a round: with less room, what is returned would hold up the connection
	returns := ch.NotifyReturn(make(chan amqp091.Return, most*len(p.clocks)))
	closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
	a := &asking{prover: p, gate: g, conn: conn, ladders: make([]ladder, len(p.clocks)), sent: map[string]question{}}
	a.publish = func(queue int, msg amqp091.Publishing) error {
		const mandatory, immediate = true, false
		return ch.Publish(p.enter(), g.keys[queue], mandatory, immediate, msg)
	}
	for queue := range a.ladders {
		if err := a.ask(queue); err != nil {
			return err
		}
	}
	for !enough(a) {
		select {
		case d, ok := <-p.back.Messages():
			if !ok {
				p.back.Ended()
				return amqp091.ErrClosed
			}
			if err := a.came(&d); err != nil {
				return err
			}
		case <-returns:
			return fmt.Errorf("%w: a waiting queue was deleted", broker.ErrReturned)
		case err := <-closed:
			if err == nil {
				return amqp091.ErrClosed
			}
			return err
		case <-ctx.Done():
			p.back.Ended() // it may not be bound any more
			return context.Cause(ctx)
		}
	}
	return nil
}

// An asking is one proof.
type asking struct {
	*prover
	gate *gate
	conn *amqp091.Connection

	publish func(queue int, msg amqp091.Publishing) error

	ladders []ladder            // one a queue
	sent    map[string]question // by the content of our header
}

// A question is a message with a time, or a marker, which has none.
type question struct {
	queue, round int
	at           int // index into the times of its ladder; of a marker their number
	time         time.Time
}

// A ladder is the questions to one queue, and the marker behind them, in one round.
type ladder struct {
	round  int
	times  []time.Time // ascending
	sent   brokertime.Moment
	asked  bool // the marker has come back
	passed int  // how many questions had come back before it: they were not hidden, or not long
	last   int  // how many there are up to the last of them
	reach  int  // how often none was hidden: index into reaches

	proved bool // a question of any round has come back after its marker
	done   bool // the clock is known as well as it can be
}

// reaches are how far ahead of a clock the last question looks. A broker that is slow has not taken
// it before its time, and a clock may be ahead of what was thought. Beyond the last one it is a
// broker that hides nothing.
var reaches = [...]time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, 10 * time.Minute, 2 * time.Hour}

// fine reports whether the clock of a queue is known as well as the way to it allows.
func (p *prover) fine(queue int) bool {
	r, ok := p.clocks[queue].Read()
	return ok && r.Latest.Sub(r.Earliest) <= 2*time.Millisecond+p.clocks[queue].RoundTrip()*3/2
}

// ask begins a round.
func (a *asking) ask(queue int) error {
	l := &a.ladders[queue]
	*l = ladder{round: l.round + 1, times: a.times(queue, l.reach), reach: l.reach, sent: a.clocks[queue].Now(), proved: l.proved}
	for at := range len(l.times) + 1 {
		q, hidden := question{queue: queue, round: l.round, at: at}, amqp091.Table(nil)
		if at < len(l.times) {
			q.time = l.times[at]
			hidden = amqp091.Table{message.NativeDelay: q.time.UnixMilli()}
		}
		e := message.NewEnvelope(time.Now(), 0, "")
		a.sent[e.String()] = q
		msg := message.Seal(amqp091.Publishing{DeliveryMode: amqp091.Transient}, e, hidden, a.back.Queue(), forgottenKey)
		if err := a.publish(queue, msg); err != nil {
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

// came takes a message that has come back.
func (a *asking) came(d *amqp091.Delivery) error {
	header, _ := d.Headers[delayer.Header].(string)
	q, ours := a.sent[header]
	delete(a.sent, header) // it may come twice
	if !ours {
		return nil // of another proof
	}
	l := &a.ladders[q.queue]
	if r, ok := a.clocks[q.queue].Read(); ok && r.Latest.Before(q.time) {
		return a.ignored(q.queue)
	}
	switch {
	case !q.time.IsZero() && (q.round < l.round || l.asked):
		l.proved = true
		a.gate.pass(a.conn, q.queue)
	case !q.time.IsZero(): // one that was hidden for a millisecond may overtake those before it
		l.passed++
		l.last = max(l.last, q.at+1)
	case l.passed < l.last:
		return fmt.Errorf("what waits in queue %s comes in another order: a node fails, or the queue has another leader", a.wait(q.queue))
	default:
		l.asked = true
		a.learn(q.queue, d)
		return a.next(q.queue)
	}
	return nil
}

// next begins another round if the last one has not told enough.
func (a *asking) next(queue int) error {
	l := &a.ladders[queue]
	hides := l.passed < len(l.times)
	if !hides && len(l.times) > 0 {
		if l.reach++; l.reach == len(reaches) {
			return a.ignored(queue)
		}
	}
	const narrowing, most = 10, 24 // a slow network may not tell it any better
	_, ok := a.clocks[queue].Read()
	switch {
	case hides && (a.fine(queue) || ok && l.round >= narrowing):
		l.done = true
	case l.round == most:
		return fmt.Errorf("the clock of queue %s cannot be learned", a.wait(queue))
	default:
		return a.ask(queue)
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
