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

const (
	readEvery  = 5 * time.Second         // the least time between two reads, however many look
	readWithin = 10 * time.Second        // for one read
	briefly    = 80 * time.Millisecond   // a browser waits so long for newer figures than those that are known
	oldAfter   = mostEvery + 2*readEvery // which those of two looks apart never are

	// The broker works for the page for less than a hundredth of its time, however much there is to
	// read: a read that takes d is paid for by share times d. It costs the broker more than d, as
	// it answers on several cores. What is saved while nobody looks is for the first reads, and
	// small: in two minutes it is not to be seen.
	share     = 300
	mostSaved = 200 * time.Millisecond // of reading
	mostEvery = time.Minute            // between two reads, however long one takes
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
	Answers(ctx context.Context) error
	Close() error
}

// Figures keep the last status. They are read again only when somebody looks, over a connection of
// their own.
type Figures struct {
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	open   func(context.Context) (source, error)
	depths Depths
	now    func() time.Time

	mu      sync.Mutex
	last    look
	began   time.Time     // of the last read
	asked   time.Time     // when the broker was last asked for anything
	saved   time.Duration // of reading, at that time; below 0 it is owed
	reading chan struct{} // closed when what is under way ends; nil: there is nothing
	done    sync.WaitGroup
	source  source // for what is under way; nil until the broker has answered once
}

// A look is what is known.
type look struct {
	status.Status
	Entries []Entry // by name
	Known   bool    // there was an answer
	Err     error   // of the last read, if it failed: Status is older then
	Coming  bool    // there is none yet, or an old one, and the broker is being asked
	History history // what waited before; ends with Status
}

// NewFigures reads those of a configuration, until Close.
func NewFigures(cfg backend.Config, depths Depths) *Figures {
	cfg.Observer, cfg.Logger = delayer.Observer{}, slog.New(slog.DiscardHandler) // the connection is of no interest
	return newFigures(func(ctx context.Context) (source, error) { return status.Open(ctx, status.Config{Backend: cfg}) }, depths, time.Now)
}

func newFigures(open func(context.Context) (source, error), depths Depths, now func() time.Time) *Figures {
	f := &Figures{open: open, depths: depths, now: now, saved: mostSaved}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Close ends what is under way, and the connection.
func (f *Figures) Close() {
	f.stop()
	f.done.Wait()
	if f.source != nil {
		_ = f.source.Close() // nothing was written
	}
}

// look returns what is known, and has it read again if that is some seconds ago. It waits briefly
// for that if what is known is old.
func (f *Figures) look(ctx context.Context) look { return f.lookFor(ctx, briefly) }

// known is [Figures.look] for those who can say nothing without figures: it waits for the first
// ones.
func (f *Figures) known(ctx context.Context) look { return f.lookFor(ctx, readWithin) }

func (f *Figures) lookFor(ctx context.Context, first time.Duration) look {
	f.mu.Lock()
	now := f.now()
	switch {
	case f.reading != nil || f.ctx.Err() != nil:
	case f.due(now):
		f.saved = min(mostSaved, f.saved+now.Sub(f.began)/share)
		f.began, f.asked, f.reading = now, now, make(chan struct{})
		f.done.Go(f.read)
	case f.last.Known && now.Sub(f.asked) >= readEvery: // that the broker is away is seen before the next read
		f.asked, f.reading = now, make(chan struct{})
		f.done.Go(f.probe)
	}
	reading, last, wait := f.reading, f.last, first
	f.mu.Unlock()
	age := now.Sub(last.Time)
	if reading == nil || last.Known && age < 2*readEvery {
		return last
	}
	if last.Known {
		wait = briefly
	}
	select {
	case <-reading:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.last
	case <-ctx.Done():
	case <-time.After(wait):
	}
	last.Coming = last.Err == nil && (!last.Known || age >= oldAfter)
	return last
}

// prepare has the figures read for somebody who is about to look, and does not wait for them.
func (f *Figures) prepare() {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	f.look(ctx)
}

// due reports whether it is time to read. A broker that was away may be back.
func (f *Figures) due(now time.Time) bool {
	since := now.Sub(f.began)
	return since >= mostEvery || since >= readEvery && (f.last.Err != nil || f.saved+since/share > 0)
}

func (f *Figures) read() {
	ctx, cancel := context.WithTimeout(f.ctx, readWithin)
	defer cancel()
	found, err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		found.History = f.last.History.add(found.Status)
		f.last = found
		f.saved -= f.now().Sub(f.began)
	}
	f.last.Err = err
	close(f.reading)
	f.reading = nil
}

// probe asks only whether the broker answers.
func (f *Figures) probe() {
	ctx, cancel := context.WithTimeout(f.ctx, readWithin)
	defer cancel()
	err := f.source.Answers(ctx) // there was a read, or else one were due
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.last.Err = err
	}
	close(f.reading)
	f.reading = nil
}

func (f *Figures) ask(ctx context.Context) (found look, err error) {
	if f.source == nil {
		if f.source, err = f.open(ctx); err != nil {
			f.source = nil
			return found, err
		}
	}
	if found.Status, err = f.source.Read(ctx); err != nil {
		return found, err
	}
	entries := map[string]*Entry{}
	err = f.depths(ctx, func(exchange, state string, messages int) {
		if entries[exchange] == nil {
			entries[exchange] = &Entry{Exchange: exchange}
		}
		if state == "parked" {
			entries[exchange].Parked = messages
		} else {
			entries[exchange].Waiting = messages
		}
	})
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		found.Entries = append(found.Entries, *entries[name])
	}
	found.Known = true
	return found, err
}

// Old reports whether what is known is older than it should be: the broker was asked in vain.
func (l look) Old() bool { return l.Err != nil }

// Why says for people what the error is.
func (l look) Why() string {
	if errors.Is(l.Err, context.DeadlineExceeded) {
		return "It did not answer in time."
	}
	return strings.TrimPrefix(l.Err.Error(), "delayer: ")
}
