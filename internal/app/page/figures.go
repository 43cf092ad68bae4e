package page

import (
	"context"
	"log/slog"
	"maps"
	"slices"
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
