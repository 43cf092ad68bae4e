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
		found.Entries, err = entries(ctx, depths)
		return found, err
	}}
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

// Close closes the connection, once no question is under way.
func (f *Figures) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.source != nil {
		_ = f.source.Close() // nothing was written
	}
}

// look returns what is known.
func (f *Figures) look(ctx context.Context) look {
	r := f.question.look(ctx)
	return look{r.Value, r.reply}
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

	mu   sync.Mutex // also while the broker is asked: others wait for the same answer
	last reading[T]
	next time.Time // when it may be asked again
}

type reading[T any] struct {
	Value T
	reply
}

// A reply is what is known about a question, beside the value.
type reply struct {
	At    time.Time // when it was asked for
	Known bool      // there was an answer
	Err   error     // of the last question, if it failed: the value is older then
}

// look returns what is known, after it has asked again if that was some time ago.
func (q *question[T]) look(ctx context.Context) reading[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	began := q.now()
	if began.Before(q.next) {
		return q.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin) // the answer is for others too
	defer cancel()
	value, err := q.ask(ctx)
	pause := askEvery // a broker that was away may be back
	if err == nil {
		q.last = reading[T]{value, reply{At: began, Known: true}}
		pause = min(max(pause, paidFor*q.now().Sub(began)), mostEvery)
	}
	q.last.Err, q.next = err, q.now().Add(pause)
	return q.last
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
