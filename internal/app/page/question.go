package page

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
)

// A question keeps the last answer of the broker. It is asked again only when somebody looks.
type question[T any] struct {
	ask    func(ctx context.Context, last T) (T, error)
	every  time.Duration // the least time between two, however many look
	within time.Duration // for one
	now    func() time.Time

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	done  sync.WaitGroup
	mu    sync.Mutex
	last  reading[T]
	began time.Time     // when it was last asked
	going chan struct{} // closed when the answer is there; nil: nobody is asked
}

// A reading is what is known.
type reading[T any] struct {
	Value  T
	Time   time.Time // when it was asked for
	Known  bool      // there was an answer
	Err    error     // of the last question, if it failed: Value is older then
	Coming bool      // there is none yet, or an old one, and the broker is being asked
}

func newQuestion[T any](every, within time.Duration, now func() time.Time, ask func(context.Context, T) (T, error)) *question[T] {
	q := &question[T]{ask: ask, every: every, within: within, now: now}
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q
}

// Close ends what is under way.
func (q *question[T]) Close() {
	q.stop()
	q.done.Wait()
}

// look returns what is known, and asks again if that was some time ago. It waits briefly for the
// answer if what is known is old.
func (q *question[T]) look(ctx context.Context) reading[T] {
	q.mu.Lock()
	now := q.now()
	if q.going == nil && (q.began.IsZero() || now.Sub(q.began) >= q.every) && q.ctx.Err() == nil {
		q.began, q.going = now, make(chan struct{})
		q.done.Go(q.read)
	}
	going, last := q.going, q.last
	q.mu.Unlock()
	if going == nil || last.Known && now.Sub(last.Time) < 2*q.every {
		return last
	}
	select {
	case <-going:
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.last
	case <-ctx.Done():
	case <-time.After(briefly):
	}
	last.Coming = last.Err == nil
	return last
}

func (q *question[T]) read() {
	ctx, cancel := context.WithTimeout(q.ctx, q.within)
	defer cancel()
	q.mu.Lock()
	last, began := q.last.Value, q.began
	q.mu.Unlock()
	value, err := q.ask(ctx, last)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		q.last = reading[T]{Value: value, Time: began, Known: true}
	}
	q.last.Err = err
	close(q.going)
	q.going = nil
}

// Old reports whether what is known is older than it should be: the broker was asked in vain.
func (a reading[T]) Old() bool { return a.Err != nil }

// What says in a few words what is wrong where there is no answer.
func (a reading[T]) What() string {
	if errors.Is(a.Err, delayer.ErrAccess) {
		return "The broker refuses to tell."
	}
	return "The broker does not answer."
}

// Why says for people what the error is.
func (a reading[T]) Why() string {
	if errors.Is(a.Err, context.DeadlineExceeded) {
		return "It did not answer in time."
	}
	return strings.TrimPrefix(a.Err.Error(), "delayer: ")
}
