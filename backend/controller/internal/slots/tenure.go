package slots

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A tenure runs one machine, until a channel is lost or it surrenders. It is the machine's
// [wheel.Shell]: the machine calls it with mu held, and nothing of that waits.
type tenure struct {
	wheel   *Wheel
	names   names
	session *settle.Session
	gate    *broker.Gate
	clock   *clock

	ctx context.Context // ends with the tenure
	end context.CancelCauseFunc

	mu       sync.Mutex
	machine  *wheel.Machine
	queues   map[wheel.Slot]*queue
	tasks    map[wheel.Slot][]func()  // the first is running
	released map[wheel.Slot]time.Time // when a queue last answered that is not consumed any more
	looking  chan *broker.Conn        // has the connection for queues that may have no leader, or nil
	working  sync.WaitGroup           // tasks, and consumers
	flying   sync.WaitGroup           // messages that are being published,
	publish  context.Context          // until this ends
	posted   []posted                 // to be submitted,
	later    []posted                 // and after those
	more     pace.Signal              // something is posted
	takes    map[string]bool          // destinations, and slots, that have taken a message
	sharing  map[string]int           // messages of each that share the channel
	told     struct {
		messages int
		bytes    int64
	}
	wake  chan struct{} // buffered: something has happened
	acked time.Time     // when acknowledgements were last written
	unack []*queue      // that have some to write
}

const (
	// drainBriefly is for what is being published when a tenure ends without the controller.
	drainBriefly = time.Second
	// endWithin is for the consumers to end. A queue without a majority does not answer for a
	// minute and more, and meanwhile this process could not lead again.
	endWithin = 6 * time.Second
	// ticksApart is the least time between two ticks: what comes meanwhile is done together.
	ticksApart = 2 * time.Millisecond
	// acksApart is the least time between two writes of acknowledgements.
	acksApart = 10 * time.Millisecond
)

var errClosing = errors.New("closing")

// serve returns why the tenure has ended.
func (c *controller) serve(ctx context.Context) error {
	t := &tenure{
		wheel: c.wheel, names: c.wheel.names, session: c.session, gate: c.gate, clock: c.clock,
		queues: map[wheel.Slot]*queue{}, tasks: map[wheel.Slot][]func(){}, wake: make(chan struct{}, 1),
		takes: map[string]bool{}, released: map[wheel.Slot]time.Time{}, sharing: map[string]int{}, looking: make(chan *broker.Conn, 1),
		more: pace.NewSignal(),
	}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	publish, abandon := context.WithCancel(context.Background())
	t.publish = publish
	t.looking <- nil
	defer context.AfterFunc(ctx, func() { t.end(errClosing) })()
	t.mu.Lock()
	t.machine = wheel.New(wheel.Config{Wheel: c.wheel.wheel, Tenure: rand.Text(), Budget: c.wheel.memory}, t, c.clock.now())
	t.mu.Unlock()
	go t.submit()
	t.tick()
	t.close(abandon)
	return context.Cause(t.ctx)
}

func (t *tenure) tick() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-t.wake:
			select {
			case <-time.After(ticksApart):
			case <-t.ctx.Done():
			}
		case <-t.ctx.Done():
		}
		if t.ctx.Err() != nil {
			return
		}
		var next time.Duration
		t.do(func(now wheel.Now) { next = t.machine.Tick(now) })
		wait := next - stamp.Reading(time.Now())
		if left := t.acknowledge(); left > 0 {
			wait = min(wait, left)
		}
		timer.Reset(wait)
	}
}

// acknowledge writes acknowledgements, or returns how long they wait.
func (t *tenure) acknowledge() (left time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unack) == 0 {
		return 0
	}
	if left = acksApart - time.Since(t.acked); left > 0 {
		return left
	}
	t.acked = time.Now()
	for _, q := range t.unack {
		q.acknowledge()
	}
	t.unack = t.unack[:0]
	return 0
}

// do does something with the machine.
func (t *tenure) do(f func(now wheel.Now)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.clock.now())
	t.weigh()
}

// happened is do for what may change when the machine must tick.
func (t *tenure) happened(f func(now wheel.Now)) {
	t.do(f)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// weigh stops reading while too much is in memory, and tells the observer how much is. The caller
// holds mu.
func (t *tenure) weigh() {
	messages, bytes := t.machine.Held()
	if messages > 1 { // one is the summons
		t.clock.used()
	}
	t.gate.Set(!t.machine.Full())
	if held := t.session.Observer.Held; held != nil && messages != t.told.messages {
		held(delayer.HeldEvent{Backend: t.session.Backend, Messages: messages - t.told.messages, Bytes: int(bytes - t.told.bytes)})
	}
	t.told.messages, t.told.bytes = messages, bytes
}

// close waits a while for what is being published, and ends all consumers.
func (t *tenure) close(abandon func()) {
	drain := drainBriefly
	if errors.Is(context.Cause(t.ctx), errClosing) {
		drain = settle.DrainTimeout
	}
	t.do(func(wheel.Now) { t.machine.End() })
	drained := make(chan struct{})
	go func() { t.flying.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(drain):
	}
	abandon()
	<-drained
	t.do(func(now wheel.Now) {
		t.machine.Flush(now)
		for s := range t.queues {
			t.Release(s)
		}
	})
	ended := make(chan struct{})
	go func() { t.working.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(endWithin):
		t.session.In.Drop()
		<-ended
	}
	if conn := <-t.looking; conn != nil {
		conn.Close()
	}
}

// Surrender implements [wheel.Shell].
func (t *tenure) Surrender(why string) { t.end(errors.New(why)) }

// task does something with a queue, one thing after the other. The caller holds mu.
func (t *tenure) task(s wheel.Slot, f func()) {
	t.tasks[s] = append(t.tasks[s], f)
	if len(t.tasks[s]) > 1 {
		return
	}
	t.working.Go(func() {
		for more := true; more; {
			f()
			t.mu.Lock()
			t.tasks[s] = t.tasks[s][1:]
			if more = len(t.tasks[s]) > 0; more {
				f = t.tasks[s][0]
			} else {
				delete(t.tasks, s)
			}
			t.mu.Unlock()
		}
	})
}

// Consume implements [wheel.Shell].
func (t *tenure) Consume(s wheel.Slot, prefetch int) {
	q := t.queues[s]
	if q == nil {
		q = &queue{tenure: t, slot: s, name: t.names.queue(s)}
		t.queues[s] = q
	}
	t.task(s, func() {
		if err := q.consume(prefetch); err != nil {
			t.end(err)
		}
	})
}

// Release implements [wheel.Shell].
func (t *tenure) Release(s wheel.Slot) {
	q := t.queues[s]
	delete(t.queues, s)
	q.acknowledge()
	t.task(s, q.release)
}

// Ack implements [wheel.Shell].
func (t *tenure) Ack(s wheel.Slot, tag uint64, multiple bool) {
	q := t.queues[s]
	if q == nil {
		return
	}
	if q.upTo == 0 && len(q.single) == 0 {
		t.unack = append(t.unack, q)
	}
	if multiple {
		q.upTo = tag
	} else {
		q.single = append(q.single, tag)
	}
}

// Count implements [wheel.Shell]. A queue that is gone has no messages.
func (t *tenure) Count(s wheel.Slot) {
	t.task(s, func() {
		count := func(ctx context.Context) (amqp091.Queue, bool, error) {
			return t.session.Control.Count(ctx, t.names.queue(s))
		}
		found, known, err := count(t.ctx)
		if known && found.Messages == 0 && found.Consumers == 0 && s != wheel.Intake {
			if known = t.led(s); known {
				found, known, err = broker.CountAfter(t.ctx, count)
			}
		}
		known = known || broker.Code(err) == amqp091.NotFound
		t.happened(func(now wheel.Now) { t.machine.Counted(now, s, found.Messages, found.Consumers, known) })
	})
}

// leadsFor is for how long a queue is taken to have a leader once it has answered.
const leadsFor = time.Second

// led reports whether a queue has a leader. Of one that has none RabbitMQ says that it is empty.
func (t *tenure) led(s wheel.Slot) bool {
	t.mu.Lock()
	released := t.released[s]
	delete(t.released, s)
	t.mu.Unlock()
	if time.Since(released) < leadsFor {
		return true
	}
	asked := time.Now()
	conn, err := t.look()
	if err == nil {
		err = broker.AskLeader(t.ctx, conn, t.names.queue(s))
	}
	if err == nil {
		return true
	}
	if t.ctx.Err() == nil {
		t.session.Warn("a queue does not answer; messages with a ticket wait for it", "queue", t.names.queue(s), "error", err)
	}
	select { // it is counted again at once
	case <-time.After(time.Until(asked.Add(leadsFor))):
	case <-t.ctx.Done():
	}
	return false
}

// look returns the connection for queues that may have no leader. If it cannot be made the next one
// tries again.
func (t *tenure) look() (*broker.Conn, error) {
	conn := <-t.looking
	var err error
	if conn == nil {
		conn, err = t.session.Look(t.ctx)
	}
	t.looking <- conn
	return conn, err
}

// Verify implements [wheel.Shell].
func (t *tenure) Verify() {
	answers := make(chan error, len(t.queues))
	asked := 0
	for s, q := range t.queues {
		if !q.consumed { // it holds nothing, and may have no majority: then it does not answer
			continue
		}
		asked++
		t.task(s, func() { answers <- q.verify() }) // two calls at a time on a channel would swap their answers
	}
	t.working.Go(func() {
		for range asked {
			if err := <-answers; err != nil {
				t.end(err)
				return
			}
		}
		t.happened(t.machine.Verified)
	})
}
