package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
)

const (
	// mostSequences is how many parts of a batch are published at a time.
	mostSequences = 256
	// inFlight is how many messages of a part may be unconfirmed: half of what a channel takes. The
	// other half is left to others.
	inFlight = 512
)

// PublishBatch implements [delayer.Delayer]. Messages without a delay go to their destinations
// directly, and a destination may not confirm for long. So the messages of each are published
// beside those of others, and so are all that have a delay.
func (e *Engine) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	b := &batch{engine: e, messages: messages, results: make([]error, len(messages))}
	if e.settings.Observer.Published != nil {
		b.began = make([]time.Time, len(messages))
	}
	var delayed []int
	var sequences [][]int // of messages without a delay, by destination
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
			n = len(sequences)
			at[to] = n
			sequences = append(sequences, nil)
		}
		sequences[n] = append(sequences[n], i)
	}
	var all sync.WaitGroup
	room := make(chan struct{}, mostSequences)
	for _, sequence := range append(sequences, delayed) {
		room <- struct{}{}
		all.Go(func() {
			b.publish(ctx, sequence)
			<-room
		})
	}
	all.Wait()
	return b.results
}

// A batch is what PublishBatch was called with. Each message belongs to one sequence.
type batch struct {
	engine   *Engine
	messages []delayer.Message
	results  []error
	began    []time.Time // nil unless somebody observes
}

// publish publishes messages one behind the other. Those that were certainly not stored, because
// objects of ours are gone, are sent again behind the others.
func (b *batch) publish(ctx context.Context, todo []int) {
	for attempt := 1; len(todo) > 0; attempt++ {
		todo = b.send(ctx, todo, attempt == attempts)
	}
}

// A flight is a message on its way, or the error why it is not.
type flight struct {
	index   int
	pending Pending
	out     outgoing
	err     error
}

// send sends messages once. It returns those to be sent again, unless this is the last attempt. One
// goroutine submits messages and this one waits for their confirms, so that a message that waits for
// its turn holds up no confirm.
func (b *batch) send(ctx context.Context, todo []int, last bool) (again []int) {
	e := b.engine
	flights := make(chan flight, min(len(todo), inFlight))
	var flying sync.WaitGroup
	go b.submit(ctx, todo, flights, &flying)
	lost := false // none, as far as is known
	for f := range flights {
		if f.err == nil {
			f.err = f.pending.Wait(ctx)
		}
		if f.err == nil {
			f.out.confirmed()
		}
		flying.Done()
		m := &b.messages[f.index]
		b.results[f.index] = e.explain(f.err, m.Delay, m.Exchange, m.Key)
		is := f.err != nil && e.lost(f.err, m.Delay)
		lost = lost || is
		if !last && is {
			again = append(again, f.index)
		} else {
			b.tell(ctx, f.index)
		}
	}
	if lost {
		e.keeper.Doubt()
	}
	return again
}

// submit submits messages in ascending order. Preparing one may wait for a connection, and Close
// waits for the confirms of those before it: so Close ends that.
func (b *batch) submit(ctx context.Context, todo []int, flights chan<- flight, flying *sync.WaitGroup) {
	defer close(flights)
	e := b.engine
	prepare, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.closing, cancel)()
	order := e.batches.Add(1) // keeps the order of messages also where there are several connections
	var ended error           // the same for all messages that are not begun
	for _, i := range todo {
		if ended == nil && (ctx.Err() != nil || e.closing.Err() != nil) {
			ended = e.ended(ctx, i)
		}
		m, f := &b.messages[i], flight{index: i, err: ended}
		if ended == nil {
			if b.began != nil && b.began[i].IsZero() {
				b.began[i] = time.Now()
			}
			var waits time.Duration
			if f.err = m.CheckBatch(); f.err == nil {
				waits, f.err = e.accept(m.Exchange, m.Key, m.Delay, &m.Publishing)
			}
			if f.err == nil {
				envelope := message.NewEnvelope(time.Now().Add(m.Delay), m.Delay, m.Exchange)
				f.out, f.err = e.prepare(prepare, m.Exchange, m.Key, waits, m.Publishing, envelope, envelope.Due)
				if f.err != nil && ctx.Err() == nil && e.closing.Err() != nil { // because of Close
					f.err = e.ended(ctx, i)
				}
			}
		}
		alone := f.err == nil && f.out.wait == nil && !f.out.Direct && e.publisher.Alone(&f.out.Publishing)
		if alone { // it comes after those before it
			flying.Wait()
		}
		if f.err == nil {
			f.out.Order = order
			f.pending, f.err = e.submit(ctx, &f.out)
		}
		flying.Add(1)
		flights <- f
		if alone {
			flying.Wait()
		}
	}
}

// ended is the error of the messages of a batch from index on, when ctx or the engine has ended.
func (e *Engine) ended(ctx context.Context, index int) error {
	err := &delayer.Error{
		Op: "publish", Backend: e.settings.Backend, Object: fmt.Sprintf("from message %d on", index),
		Kind: delayer.ErrNotSent, Cause: context.Cause(ctx),
	}
	if ctx.Err() == nil {
		err.Kind = delayer.ErrClosed
	}
	return err
}

// tell tells the Observer the result of a message, which will not be sent again.
func (b *batch) tell(ctx context.Context, index int) {
	if b.began == nil {
		return
	}
	m, took := &b.messages[index], time.Duration(0)
	if began := b.began[index]; !began.IsZero() {
		took = time.Since(began)
	}
	b.engine.settings.Observer.Published(ctx, delayer.PublishEvent{
		Backend: b.engine.settings.Backend, Exchange: m.Exchange, Key: m.Key, Delay: m.Delay, Took: took, Err: b.results[index],
	})
}
