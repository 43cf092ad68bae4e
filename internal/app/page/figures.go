package page

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/status"
)

// Depths are those of the exchanges that are served: see [entry.Runner.Depths].
type Depths func(context.Context) ([]entry.Depth, error)

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
	Entries []entry.Depth
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
	f.question = &question[figures]{now: now, ask: func(ctx context.Context) (found figures, err error) {
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
		found.Entries, err = depths(ctx)
		return found, err
	}}
	return f
}

// Close closes the connection, once no question is under way.
func (f *Figures) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.source != nil {
		_ = f.source.Close() // nothing was written
	}
}

// Harmless reports whether it is known that no policy does harm.
func (l look) Harmless() bool { return l.Policies != nil && len(l.Policies) == 0 }

// Managed reports whether queues of parked messages are known, of which there may be none.
func (l look) Managed() bool { return l.Parked != nil }

func (f *Figures) look(ctx context.Context) look {
	found, known := f.question.look(ctx)
	return look{found, known}
}

const (
	answerWithin = 10 * time.Second
	askEvery     = 5 * time.Second // the least time between two questions, however many look
	mostEvery    = time.Minute     // the most, however long an answer takes
	// paidFor is how many times as long as the last answer took the broker is left alone.
	paidFor = 100
)

// A question keeps the last answer of the broker. It is asked again only when the page is.
type question[T any] struct {
	ask func(context.Context) (T, error)
	now func() time.Time

	mu    sync.Mutex // also while the broker is asked: others wait for the same answer
	last  T
	known reply
	next  time.Time // when it may be asked again
}

// A reply is what is known about a question, beside the value.
type reply struct {
	At    time.Time // when it was asked for
	Known bool      // there was an answer
	Err   error     // of the last question, if it failed: the value is older then
}

// look returns what is known, after it has asked again if that was some time ago.
func (q *question[T]) look(ctx context.Context) (T, reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	began := q.now()
	if began.Before(q.next) {
		return q.last, q.known
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin) // the answer is for others too
	defer cancel()
	value, err := q.ask(ctx)
	pause := askEvery // a broker that was away may be back
	if err == nil {
		q.last, q.known = value, reply{At: began, Known: true}
		pause = min(max(pause, paidFor*q.now().Sub(began)), mostEvery)
	}
	q.known.Err, q.next = err, q.now().Add(pause)
	return q.last, q.known
}

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
