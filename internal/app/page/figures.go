package page

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/status"
)

// figuresWithin is for one read.
const figuresWithin = 10 * time.Second

// Depths tells how many messages lie in the queues of each exchange that is served, by their state:
// waiting or parked.
type Depths func(ctx context.Context, tell func(exchange, state string, messages int)) error

// An Entry is an exchange that is served.
type Entry struct {
	Exchange        string
	Waiting, Parked int
}

// A source is read for figures: a [status.Reader].
type source interface {
	Read(ctx context.Context) (status.Status, error)
	Close() error
}

// Figures keep the last status, which is read over a connection of their own.
type Figures struct {
	*question[figures]
	source source // for the question; nil until the broker has answered once
}

type figures struct {
	status.Status
	Entries []Entry // by name
	History history // what waited before; ends with Status
}

// A look is what is known of the figures.
type look struct {
	figures
	reply
}

// NewFigures reads those of a configuration, until Close.
func NewFigures(cfg backend.Config, depths Depths) *Figures {
	cfg.Observer, cfg.Logger = delayer.Observer{}, slog.New(slog.DiscardHandler) // the connection is of no interest
	return newFigures(func(ctx context.Context) (source, error) { return status.Open(ctx, status.Config{Backend: cfg}) }, depths, time.Now)
}

func newFigures(open func(context.Context) (source, error), depths Depths, now func() time.Time) *Figures {
	f := &Figures{}
	f.question = newQuestion(figuresWithin, now, func(ctx context.Context, last figures) (found figures, err error) {
		if f.source == nil {
			s, err := open(ctx)
			if err != nil {
				return found, err
			}
			f.source = s
		}
		if found.Status, err = f.source.Read(ctx); err != nil {
			return found, err
		}
		found.Entries, err = entries(ctx, depths)
		found.History = last.History.add(found.Status)
		return found, err
	})
	return f
}

// entries are the exchanges that are served.
func entries(ctx context.Context, depths Depths) (list []Entry, err error) {
	found := map[string]Entry{}
	err = depths(ctx, func(exchange, state string, messages int) {
		one := found[exchange]
		one.Exchange = exchange
		if state == "parked" {
			one.Parked = messages
		} else {
			one.Waiting = messages
		}
		found[exchange] = one
	})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[name])
	}
	return list, err
}

// Close ends what is under way, and the connection.
func (f *Figures) Close() {
	f.question.Close()
	if f.source != nil {
		_ = f.source.Close() // nothing was written
	}
}

// look returns what is known.
func (f *Figures) look(ctx context.Context) look { return f.lookFor(ctx, briefly) }

// known is look for those who can say nothing without figures: it waits for the first ones.
func (f *Figures) known(ctx context.Context) look { return f.lookFor(ctx, figuresWithin) }

func (f *Figures) lookFor(ctx context.Context, patience time.Duration) look {
	r := f.question.look(ctx, patience)
	return look{r.Value, r.reply}
}

const (
	askEvery  = 5 * time.Second // the least time between two questions, however many look
	mostEvery = time.Minute     // the most, however long an answer takes
	// paidFor is how many times as long as the last answer took the broker is left alone.
	paidFor  = 100
	briefly  = 80 * time.Millisecond  // a browser waits so long for newer answers than what is known
	oldAfter = mostEvery + 2*askEvery // answers for two looks that follow each other are never so old
)

// A question keeps the last answer of the broker. It is asked again only when somebody looks.
type question[T any] struct {
	ask    func(ctx context.Context, last T) (T, error)
	within time.Duration // for one answer
	now    func() time.Time

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	done  sync.WaitGroup
	mu    sync.Mutex
	last  reading[T]
	next  time.Time     // when it may be asked again
	going chan struct{} // closed when the answer is there; nil: the broker is not being asked
}

// A reading is what is known.
type reading[T any] struct {
	Value T
	reply
}

// A reply is what is known about a question, beside the value.
type reply struct {
	At     time.Time // when it was asked for
	Known  bool      // there was an answer
	Err    error     // of the last question, if it failed: the value is older then
	Coming bool      // there is no answer yet, or an old one, and the broker is being asked
}

func newQuestion[T any](within time.Duration, now func() time.Time, ask func(context.Context, T) (T, error)) *question[T] {
	q := &question[T]{ask: ask, within: within, now: now}
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q
}

// Close ends what is under way.
func (q *question[T]) Close() {
	q.stop()
	q.done.Wait()
}

// look returns what is known, and asks again if that was some time ago. If what is known is old, it
// waits briefly for the answer, and for the first one as long as patience says.
func (q *question[T]) look(ctx context.Context, patience time.Duration) reading[T] {
	q.mu.Lock()
	now := q.now()
	if q.going == nil && !now.Before(q.next) && q.ctx.Err() == nil {
		q.going = make(chan struct{})
		q.done.Go(func() { q.read(now) })
	}
	going, last := q.going, q.last
	q.mu.Unlock()
	age := now.Sub(last.At)
	if going == nil || last.Known && age < 2*askEvery {
		return last
	}
	if last.Known {
		patience = briefly
	}
	select {
	case <-going:
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.last
	case <-ctx.Done():
	case <-time.After(patience):
	}
	last.Coming = last.Err == nil && (!last.Known || age >= oldAfter)
	return last
}

func (q *question[T]) read(began time.Time) {
	ctx, cancel := context.WithTimeout(q.ctx, q.within)
	defer cancel()
	q.mu.Lock()
	last := q.last.Value
	q.mu.Unlock()
	value, err := q.ask(ctx, last)
	q.mu.Lock()
	defer q.mu.Unlock()
	pause := askEvery // a broker that was away may be back
	if err == nil {
		q.last = reading[T]{value, reply{At: began, Known: true}}
		pause = min(max(pause, paidFor*q.now().Sub(began)), mostEvery)
	}
	q.last.Err = err
	q.next = began.Add(pause)
	close(q.going)
	q.going = nil
}

// Old reports whether what is known is older than it should be: the broker was asked in vain.
func (a reply) Old() bool { return a.Err != nil }

// What says in a few words what is wrong where there is no answer.
func (a reply) What() string {
	if errors.Is(a.Err, delayer.ErrAccess) {
		return "The broker refuses to tell."
	}
	return "The broker does not answer."
}

// Why says for people what the error is.
func (a reply) Why() string {
	if errors.Is(a.Err, context.DeadlineExceeded) {
		return "It did not answer in time."
	}
	return strings.TrimPrefix(a.Err.Error(), "delayer: ")
}
