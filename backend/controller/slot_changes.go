package controller

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/changes"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

const (
	// changesKept is for how long the stream keeps what was written, by whole segments.
	changesKept = "7D"
	// writtenAgain is how old a change becomes before a controller writes it again, if its message
	// still waits: long before the stream drops it.
	writtenAgain = 2 * 24 * time.Hour
	markEvery    = 500 * time.Millisecond
	// leastBetweenMarks holds while marks do not come back, however many wait for one.
	leastBetweenMarks = 100 * time.Millisecond
	// tidyEvery is how often a controller looks for what is to be written again, or forgotten.
	tidyEvery = time.Hour
	// changeTimeout bounds one attempt to write.
	changeTimeout = 5 * time.Second
)

// changesQueue is the stream of changes.
func changesQueue(name string) topology.Queue {
	return topology.Queue{Name: name, Role: topology.Record, Args: amqp091.Table{
		"x-queue-type": topology.Stream, "x-max-age": changesKept, "x-stream-max-segment-size-bytes": int64(16 << 20),
	}}
}

// changing is an entry as it is published.
func (n names) changing(e changes.Entry) broker.Publishing {
	msg := amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: e.Body()}
	return broker.Publishing{
		Exchange: n.enterSlots(), Key: changesKey, Stream: n.changes(), Message: message.Seal(msg, message.NewEnvelope(time.Now(), 0, ""), nil),
	}
}

// A changeLog is the stream of changes as a controller reads it: all of it, from the beginning, again
// after each lost channel. The controller knows all changes of messages that still wait.
type changeLog struct {
	runner *runner
	conn   *broker.Conn
	clock  *brokerClock
	write  func(context.Context, broker.Publishing) error
	epoch  time.Time
	wake   chan struct{} // buffered: marks are wanted

	mu      sync.Mutex
	set     changes.Set
	marks   changes.Marks
	wanted  time.Time          // marks are written until then
	marked  time.Time          // when the last mark was written
	began   brokertime.Instant // of this reading of the stream
	caught  bool               // it has come as far as there was something then
	whole   bool               // that is new: what this reading lacked is still to be written
	waiting []waiting
}

// waiting is something to be done once all changes are known that were accepted by then.
type waiting struct {
	since brokertime.Instant
	do    func()
}

func newChangeLog(r *runner, conn *broker.Conn, clock *brokerClock) *changeLog {
	l := &changeLog{runner: r, conn: conn, clock: clock, epoch: time.Now(), wake: make(chan struct{}, 1)}
	l.write = l.publish
	return l
}

func (l *changeLog) publish(ctx context.Context, msg broker.Publishing) error {
	if err := l.runner.keeper.Ensure(ctx); err != nil {
		return err
	}
	err := l.runner.publisher.Publish(ctx, msg)
	if err != nil {
		l.runner.keeper.Doubt()
	}
	return err
}

// of is what is known of a message.
func (l *changeLog) of(id string) (changes.Fate, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set.Of(id)
}

func (l *changeLog) now() brokertime.Instant { return brokertime.InstantAt(time.Now(), l.epoch) }

// covers reports whether all changes are known that were accepted for a message that has been due for
// so long.
func (l *changeLog) covers(overdue time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marks.Covers(l.now(), overdue)
}

// expect makes marks be written for a while.
func (l *changeLog) expect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = time.Now().Add(marksFor)
	if age, ok := l.marks.Age(l.now()); ok && age < markEvery {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// whenCurrent calls do, soon, when all changes are known that were accepted by now.
func (l *changeLog) whenCurrent(do func()) {
	l.mu.Lock()
	l.waiting = append(l.waiting, waiting{l.now(), do})
	l.mu.Unlock()
	l.expect()
}

// current calls what waits for a mark that came back.
func (l *changeLog) current() {
	l.mu.Lock()
	ready := func(w waiting) bool { return l.marks.SentAfter(w.since) }
	var do []waiting
	for _, w := range l.waiting {
		if ready(w) {
			do = append(do, w)
		}
	}
	l.waiting = slices.DeleteFunc(l.waiting, ready)
	l.mu.Unlock()
	for _, w := range do {
		w.do()
	}
}

// run reads and writes until ctx ends.
func (l *changeLog) run(ctx context.Context) {
	var read sync.WaitGroup
	defer read.Wait()
	read.Go(func() { l.consume(ctx) })
	l.keep(ctx)
}

// keep writes marks while they are wanted, and changes that would be lost.
func (l *changeLog) keep(ctx context.Context) {
	beat := time.NewTicker(markEvery)
	defer beat.Stop()
	tidy := time.NewTimer(tidyEvery/2 + rand.N(tidyEvery))
	defer tidy.Stop()
	for {
		select {
		case <-beat.C:
		case <-l.wake:
		case <-tidy.C:
			l.tidy(ctx, (*changes.Set).Old)
			tidy.Reset(tidyEvery/2 + rand.N(tidyEvery))
		case <-ctx.Done():
			return
		}
		l.mark(ctx)
		if l.lacked() {
			l.tidy(ctx, func(s *changes.Set, _ int64) []string { return s.Lacking() })
			l.tidy(ctx, (*changes.Set).Old) // controllers may never run for long
		}
	}
}

// mark writes a mark, if one is wanted. The last may have been written a moment ago.
func (l *changeLog) mark(ctx context.Context) {
	e := changes.Entry{Mark: message.NewEnvelope(time.Now(), 0, "").ID}
	l.mu.Lock()
	now := time.Now()
	wanted := (now.Before(l.wanted) || len(l.waiting) > 0) && now.Sub(l.marked) >= leastBetweenMarks
	if wanted {
		l.marked = now
		l.marks.Send(e.Mark, l.now())
	}
	l.mu.Unlock()
	if wanted {
		l.put(ctx, e)
	}
}

// put writes an entry, or says why it could not.
func (l *changeLog) put(ctx context.Context, e changes.Entry) {
	within, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err := l.write(within, l.runner.blueprint.names.changing(e))
	if err != nil && ctx.Err() == nil {
		l.runner.warn("the controller cannot write to its stream; messages with a ticket wait for that",
			"queue", l.runner.blueprint.names.changes(), "error", err)
	}
}

// lacked reports, once, that the stream was read again as far as it went.
func (l *changeLog) lacked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.whole
	l.whole = false
	return was
}

// tidy forgets what is over, and writes again what of lists. While the broker's time is unknown that
// waits for the next time.
func (l *changeLog) tidy(ctx context.Context, of func(s *changes.Set, before int64) []string) {
	now, ok := l.clock.read()
	if !ok {
		return
	}
	l.mu.Lock()
	l.set.Forget(now.Earliest, now.Earliest.Add(-time.Since(l.epoch)), func(due, since int64) time.Time {
		return dueAt(stamp{at: due, since: since}, now)
	})
	again := l.set.Entries(of(&l.set, now.Earliest.Add(-writtenAgain).UnixMilli()), now.Earliest.UnixMilli())
	l.mu.Unlock()
	for _, e := range again {
		l.put(ctx, e)
	}
}

// consume reads all from the first entry on, again after each lost channel.
func (l *changeLog) consume(ctx context.Context) {
	stream := broker.Stream{Queue: l.runner.blueprint.names.changes(), Offset: "first", Again: l.again, Take: l.take}
	stream.Failed = func(err error) {
		l.runner.keeper.Doubt()
		l.runner.warn("the controller cannot read its stream; messages with a ticket wait for that",
			"queue", stream.Queue, "error", err)
	}
	stream.Read(ctx, l.conn)
}

// again notes that the stream is read from its beginning.
func (l *changeLog) again() {
	l.mu.Lock()
	l.set.Read()
	l.began, l.caught, l.whole = l.now(), false, false
	l.mu.Unlock()
	l.expect()
}

// take reads one entry.
func (l *changeLog) take(body []byte) {
	e, ok := changes.Parse(body)
	if !ok {
		return
	}
	l.mu.Lock()
	l.set.Add(e)
	back := e.Mark != "" && l.marks.Back(e.Mark)
	if back && !l.caught && l.marks.SentAfter(l.began) {
		l.caught, l.whole = true, true
	}
	l.mu.Unlock()
	if back {
		l.current()
	}
}
