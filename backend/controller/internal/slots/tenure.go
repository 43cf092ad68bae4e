package slots

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/bundle"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A tenure runs one leader, until its channel on the log is lost or it surrenders. What the leader
// wants done is done with mu held, and nothing of that waits.
type tenure struct {
	*controller

	ctx context.Context // ends with the tenure
	end context.CancelCauseFunc
	log *confirms // the channel that consumes the log: it writes to the log, and to slots

	mu      sync.Mutex
	leader  *leader.Leader
	queues  map[leader.Queue]*queue
	asked   map[leader.Queue]*line // what is to be done with slots once they have answered
	writes  line                   // acknowledgements and bundles
	tick    *time.Timer
	counts  bool           // the queue of the snapshot answers
	working sync.WaitGroup // all that is beside: lines, and consumers
	told    leader.Stats

	flying       sync.WaitGroup  // messages that are being published to their destinations,
	publish      context.Context // until this ends
	takes        map[string]bool // destinations that have taken a message
	opened       int64           // channels of the publisher, by then
	shared       line            // to those, over one channel
	destinations map[string]*destination
}

const (
	// drainBriefly is for what is being published when a tenure ends without the controller.
	drainBriefly = time.Second
	// endWithin is for the consumers to end. A queue without a majority does not answer for a
	// minute and more, and meanwhile this process could not lead again.
	endWithin = 6 * time.Second
)

var errClosing = errors.New("closing")

// serve returns why the tenure has ended.
func (c *controller) serve(ctx context.Context) error {
	t := &tenure{
		controller: c, queues: map[leader.Queue]*queue{}, asked: map[leader.Queue]*line{leader.Log: {}},
		takes: map[string]bool{}, destinations: map[string]*destination{},
	}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	defer context.AfterFunc(ctx, func() { t.end(errClosing) })()
	publish, abandon := context.WithCancel(context.Background())
	t.publish = publish
	t.tick = time.AfterFunc(time.Hour, func() { t.happened(leader.Tick{}) })
	t.leader = leader.New(leader.Config{Rings: c.wheel.rings, Tenure: rand.Text(), Prefetch: c.prefetch, Memory: c.wheel.memory}, c.clock.now())
	if err := t.candidate(c.prefetch); err != nil {
		t.end(err)
	}
	t.happened(leader.Tick{})
	<-t.ctx.Done()
	t.close(abandon)
	return context.Cause(t.ctx)
}

// candidate consumes the log.
func (t *tenure) candidate(prefetch int) error {
	q := &queue{tenure: t, is: leader.Log, name: t.wheel.log()}
	channel, err := q.open()
	if err != nil {
		return err
	}
	if t.log, err = newConfirms(channel); err != nil {
		return err
	}
	t.mu.Lock()
	t.queues[leader.Log] = q
	t.mu.Unlock()
	return q.consume(channel, prefetch)
}

// happened tells the leader what has happened.
func (t *tenure) happened(e leader.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step(e)
}

// step tells the leader what has happened, and does what it says. The caller holds mu.
func (t *tenure) step(e leader.Event) {
	if _, delivered := e.(leader.Sent); t.ctx.Err() != nil && !delivered {
		return
	}
	now := t.clock.now()
	todo, next := t.leader.Step(now, e)
	for _, e := range todo {
		if _, acks := e.(leader.Ack); acks || t.ctx.Err() == nil {
			t.do(e)
		}
	}
	t.weigh(t.leader.Stats)
	if t.ctx.Err() == nil {
		t.tick.Reset(max(next-now.Mono, 0))
	}
}

func (t *tenure) do(e leader.Effect) {
	switch e := e.(type) {
	case leader.Consume:
		q := &queue{tenure: t, is: e.Queue, name: t.wheel.queue(e.Queue)}
		t.queues[e.Queue] = q
		t.onceAnswered(e.Queue, func() {
			t.follow(&q.line, func() {
				channel, err := q.open()
				if err == nil {
					err = q.consume(channel, e.Prefetch)
				}
				if err != nil {
					t.end(err)
				}
			})
		})
	case leader.Release:
		q := t.queues[e.Queue]
		delete(t.queues, e.Queue)
		t.after(func() error { // behind its acknowledgements
			t.mu.Lock()
			defer t.mu.Unlock()
			t.follow(&q.line, q.release)
			return nil
		})
	case leader.Ack:
		if q := t.queues[e.Queue]; q != nil {
			t.after(func() error { return q.channel.Ack(e.Tag, e.Multiple) })
		}
	case leader.Write:
		t.onceAnswered(e.To, func() { t.after(func() error { return t.write(e) }) })
	case leader.Deliver:
		t.deliver(e.Item)
	case leader.Snapshot:
		t.snapshot(e)
	case leader.Recall:
		t.working.Go(t.recall)
	case leader.Surrender:
		t.end(errors.New(e.Why))
	}
}

// after writes something to the broker behind what was written before. While an alarm lasts RabbitMQ
// does not read the connection, and this line waits; nothing else does. The caller holds mu.
func (t *tenure) after(do func() error) {
	t.follow(&t.writes, func() {
		if err := do(); err != nil {
			t.end(err)
		}
	})
}

// A line does one thing behind the other, in a goroutine while there are any.
type line struct {
	todo    []func()
	running bool
}

// follow adds something to a line. The caller holds mu.
func (t *tenure) follow(l *line, do ...func()) {
	l.todo = append(l.todo, do...)
	if l.running || len(l.todo) == 0 {
		return
	}
	l.running = true
	t.working.Go(func() {
		for {
			t.mu.Lock()
			todo := l.todo
			l.todo, l.running = nil, len(todo) > 0
			t.mu.Unlock()
			if len(todo) == 0 {
				return
			}
			for _, do := range todo {
				do()
			}
		}
	})
}

// onceAnswered does something with a slot, with mu held, once that has answered. RabbitMQ waits up to
// 65 s for the first message of a channel to a quorum queue that has no leader, and does nothing else
// of that channel meanwhile; and it closes the connection of who consumes such a queue. So a slot
// proves first, on a channel of its own, that it answers: by a mark of nobody, which whoever reads it
// acknowledges. The caller holds mu.
func (t *tenure) onceAnswered(q leader.Queue, do func()) {
	l := t.asked[q]
	if l == nil {
		l = &line{}
		t.asked[q] = l
		t.follow(l, func() {
			if err := t.ask(q); err != nil {
				t.end(err)
			}
		})
	}
	t.follow(l, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		do()
	})
}

// ask returns once a slot has taken a mark, or the tenure ends.
func (t *tenure) ask(q leader.Queue) error {
	exchange, key := t.wheel.to(q)
	mark := &bundle.Bundle{Writer: "ask", InSlot: true, Records: []bundle.Record{{Kind: bundle.Mark}}}
	for {
		err := t.asks.Publish(t.ctx, broker.Publishing{Exchange: exchange, Key: key, Apart: key, Message: publishing(mark, "")})
		if err == nil || t.ctx.Err() != nil || errors.Is(err, delayer.ErrClosed) {
			return err
		}
		t.refused(q, err)
		if err := pace.Sleep(t.ctx, time.Second); err != nil {
			return err
		}
	}
}

func (t *tenure) refused(q leader.Queue, why error) {
	t.session.Warn("a queue of the wheel refuses what is written to it; the controller tries again", "queue", t.wheel.queue(q), "error", why)
}

func (t *tenure) write(e leader.Write) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	exchange, key := t.wheel.to(e.To)
	user := ""
	for i := range e.Bundle.Records {
		if e.Bundle.Records[i].User != "" { // who reads it believes that, since the broker checks this
			user = t.session.In.User()
		}
	}
	return t.log.publish(exchange, key, publishing(e.Bundle, user), func(stored bool) {
		if !stored && t.ctx.Err() == nil {
			t.refused(e.To, delayer.ErrRefused)
		}
		t.happened(leader.Written{ID: e.ID, Stored: stored})
	})
}

// weigh tells the observer how much is held. The caller holds mu.
func (t *tenure) weigh(is leader.Stats) {
	if held := t.session.Observer.Held; held != nil && is.Held != t.told.Held {
		held(delayer.HeldEvent{Backend: t.session.Backend, Messages: is.Held - t.told.Held, Bytes: is.Bytes - t.told.Bytes})
		t.told = is
	}
}

// close waits a while for what is being delivered, acknowledges it, and ends all consumers. If it led,
// the end of the connection is that of all that this tenure has not written.
func (t *tenure) close(abandon func()) {
	drain, why := drainBriefly, context.Cause(t.ctx)
	closing := errors.Is(why, errClosing)
	if closing {
		drain = settle.DrainTimeout
	}
	t.mu.Lock() // then no step begins to deliver anything any more
	t.tick.Stop()
	t.mu.Unlock()
	settle.Wait(&t.flying, drain, abandon)
	abandon()
	t.mu.Lock()
	for _, last := range t.leader.Flush() {
		t.do(last)
	}
	for q := range t.queues {
		t.do(leader.Release{Queue: q})
	}
	t.weigh(leader.Stats{}) // what is held goes back
	t.mu.Unlock()
	settle.Wait(&t.working, endWithin, t.session.In.Drop)
	if !closing && why.Error() != leader.Renews {
		t.session.In.Drop()
	}
}
