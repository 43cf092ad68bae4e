package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// PublishBatch implements [delayer.Delayer]. Messages without a delay go to their destinations
// directly, and a destination may not confirm for long. So the messages of each are published
// beside those of others, and so are all that have a delay.
func (e *Engine) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	results := make([]error, len(messages))
	if !slices.ContainsFunc(messages, func(m delayer.Message) bool { return m.Delay == 0 }) {
		e.publishInOrder(ctx, messages, results, every(len(messages)))
		return results
	}
	var all sync.WaitGroup
	room := make(chan struct{}, mostSequences)
	for _, sequence := range sequences(messages) {
		room <- struct{}{}
		all.Go(func() {
			e.publishInOrder(ctx, messages, results, slices.Values(sequence))
			<-room
		})
	}
	all.Wait()
	return results
}

// mostSequences is how many parts of a batch are published at a time.
const mostSequences = 256

// sequences returns the indices of the messages with a delay, and of those without by destination.
func sequences(messages []delayer.Message) [][]int {
	var delayed []int
	var direct [][]int
	at := map[message.Destination]int{}
	for i := range messages {
		m := &messages[i]
		if m.Delay != 0 {
			delayed = append(delayed, i)
			continue
		}
		to := message.To(m.Exchange, m.Key)
		n, known := at[to]
		if !known {
			n = len(direct)
			at[to] = n
			direct = append(direct, nil)
		}
		direct[n] = append(direct[n], i)
	}
	return append(direct, delayed)
}

// publishInOrder publishes messages one behind the other. Those that were certainly not stored,
// because objects of ours are gone or the broker blocks publishers, are sent again behind the
// others.
func (e *Engine) publishInOrder(ctx context.Context, messages []delayer.Message, results []error, todo iter.Seq[int]) {
	var began map[int]time.Time // only of those on their way: a batch may be large
	if e.settings.Observer.Published != nil {
		began = map[int]time.Time{}
	}
	for attempt := 1; ; attempt++ {
		r := &round{
			engine: e, messages: messages, results: results, doubted: -1, began: began, last: attempt == attempts,
			limits: map[int]deadline{}, late: map[int]deadline{},
		}
		r.run(ctx, todo)
		if len(r.again) == 0 || attempt == attempts {
			return
		}
		todo = slices.Values(r.again)
	}
}

// every yields the indices of n messages.
func every(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}

// A round sends messages of a batch once, in ascending order.
type round struct {
	engine   *Engine
	messages []delayer.Message
	results  []error

	batch   *broker.Batch
	latest  int               // that was begun
	doubted int               // the latest when the topology was last doubted: what was lost up to there tells nothing new
	again   []int             // to be sent again
	last    bool              // nothing is sent again
	limits  map[int]deadline  // of those on their way, if they have one
	late    map[int]deadline  // of those that were confirmed after it
	began   map[int]time.Time // when each message was begun, if somebody observes
}

// run returns when the result of each message is known. Preparing a message may wait for a
// connection, and Close waits for the confirms of those before it: so Close ends that.
func (r *round) run(ctx context.Context, todo iter.Seq[int]) {
	prepare, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.engine.closing, cancel)()
	r.batch = r.engine.publisher.NewBatch(func(index int, err error) { r.done(ctx, index, err) })
	var ended error // the same for all messages that are not begun
	for i := range todo {
		if ended == nil {
			ended = r.ended(ctx, i)
		}
		if ended != nil {
			r.results[i] = ended
			r.tell(ctx, i)
			continue
		}
		r.publish(ctx, prepare, i)
	}
	r.batch.Flush(ctx)
	for _, i := range slices.Sorted(maps.Keys(r.late)) { // what it publishes must not wait for a batch
		m := r.messages[i]
		r.results[i] = r.engine.locate(r.engine.late(ctx, r.late[i]), m.Exchange, m.Key)
		r.tell(ctx, i)
	}
}

// ended is the error of the messages from index on, if no more can be published.
func (r *round) ended(ctx context.Context, index int) error {
	err := &delayer.Error{
		Op: "publish", Backend: r.engine.settings.Backend, Object: fmt.Sprintf("from message %d on", index), Kind: delayer.ErrNotSent,
	}
	switch {
	case ctx.Err() != nil:
		err.Cause = context.Cause(ctx)
	case r.engine.closing.Err() != nil:
		err.Kind = delayer.ErrClosed
	default:
		return nil
	}
	return err
}

func (r *round) publish(ctx, prepare context.Context, index int) {
	e, m := r.engine, &r.messages[index]
	r.latest = index
	if _, again := r.began[index]; r.began != nil && !again {
		r.began[index] = time.Now()
	}
	waits, err := e.accept(m.Exchange, m.Key, m.Delay, &m.Publishing)
	if err != nil {
		r.done(ctx, index, err)
		return
	}
	envelope := message.NewEnvelope(time.Now().Add(m.Delay), m.Delay, m.Exchange)
	sealed, limit, err := e.prepare(prepare, m.Exchange, m.Key, waits, m.Publishing, envelope)
	if err != nil {
		r.done(ctx, index, r.interrupted(ctx, index, err))
		return
	}
	if limit.late != nil {
		r.limits[index] = limit
	}
	r.batch.Publish(ctx, index, sealed)
}

// interrupted is the error of a message whose preparation Close may have ended.
func (r *round) interrupted(ctx context.Context, index int, err error) error {
	if ctx.Err() != nil || r.engine.closing.Err() == nil {
		return err
	}
	return r.ended(ctx, index)
}

// done takes the result of a message. The topology is doubted once for all that were lost together.
func (r *round) done(ctx context.Context, index int, err error) {
	e, m := r.engine, &r.messages[index]
	r.results[index] = e.locate(e.explain(err, m.Delay), m.Exchange, m.Key)
	limit := r.limits[index]
	delete(r.limits, index)
	if err == nil && limit.missed() {
		r.late[index] = limit
		return
	}
	lost := err != nil && e.lost(err, m.Delay)
	again := lost || errors.Is(err, broker.ErrStale)
	if !again || r.last {
		r.tell(ctx, index)
	}
	if again {
		r.again = append(r.again, index)
	}
	if lost && index > r.doubted {
		e.keeper.Doubt()
		r.doubted = r.latest
	}
}

// tell tells the Observer the result of a message, which will not be sent again.
func (r *round) tell(ctx context.Context, index int) {
	if r.began == nil {
		return
	}
	e, m := r.engine, &r.messages[index]
	var took time.Duration
	if began, ok := r.began[index]; ok {
		took = time.Since(began)
		delete(r.began, index)
	}
	e.settings.Observer.Published(ctx, delayer.PublishEvent{
		Backend: e.settings.Backend, Exchange: m.Exchange, Key: m.Key, Delay: m.Delay, Took: took, Err: r.results[index],
	})
}
