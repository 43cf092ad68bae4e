// Package writer gathers records into bundles for the log: the pure part of publishing. The first
// record is sent at once. What comes while bundles are unconfirmed goes into the next one. Where
// several come at a time, a bundle is gathered for a few milliseconds: each costs the broker about
// as much as a lone message.
package writer

import (
	"maps"
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
)

const (
	// mostUnconfirmed is how many bundles may be unconfirmed.
	mostUnconfirmed = 2
	// gatherFor is how long a bundle is gathered if the last one had more than one record.
	gatherFor = 3 * time.Millisecond
	// mostWaiting is how many bytes of records may wait to be sent: see Full.
	mostWaiting = 4 << 20
)

// A Record is one to be written.
type Record struct {
	bundle.Record
	Alone bool // it is a bundle of its own: it has properties that the broker checks
	sent  bool
}

// An Event is something that has happened: one of the types below.
type Event any

type (
	// Tick is that time has passed.
	Tick struct{}
	// Submit has a record written.
	Submit struct{ Record *Record }
	// Withdraw takes a record back if it is not sent: then Settle says Refused.
	Withdraw struct{ Record *Record }
	// Confirmed answers a Send.
	Confirmed struct {
		ID      uint64
		Outcome Outcome
	}
)

// An Outcome is what became of a bundle, and so of each of its records.
type Outcome int

// The outcomes.
const (
	Stored  Outcome = iota
	Refused         // it is stored nowhere
	Unknown         // it may be stored or not
)

// An Effect is something to be done: one of the types below.
type Effect any

type (
	// Send publishes a bundle to the log, mandatory and confirmed, in the order of these effects.
	Send struct {
		ID     uint64 // also the number of the bundle
		Bundle *bundle.Bundle
	}
	// Settle says what became of a record.
	Settle struct {
		Record  *Record
		Outcome Outcome
	}
)

// A Writer writes for one process. The zero value is not ready: use [New].
type Writer struct {
	name    string
	out     []Effect
	waiting []*Record
	bytes   int           // of those
	since   time.Duration // when the first of them came
	flying  map[uint64][]*Record
	number  uint64
	busy    bool // the last bundle had more than one record
}

// New returns the writer of a process, whose name nobody else has.
func New(name string) *Writer { return &Writer{name: name, flying: map[uint64][]*Record{}} }

// Full reports whether so much waits that nothing more should be submitted.
func (w *Writer) Full() bool { return w.bytes >= mostWaiting }

// Step takes an event, and returns what is to be done, and when a Tick is due; 0: none is. The
// effects are valid until the next Step.
func (w *Writer) Step(now time.Duration, e Event) (todo []Effect, next time.Duration) {
	w.out = w.out[:0]
	switch e := e.(type) {
	case Submit:
		if len(w.waiting) == 0 {
			w.since = now
		}
		w.waiting = append(w.waiting, e.Record)
		w.bytes += e.Record.Size()
	case Withdraw:
		w.withdraw(e.Record)
	case Confirmed:
		for _, r := range w.flying[e.ID] {
			w.out = append(w.out, Settle{r, e.Outcome})
		}
		delete(w.flying, e.ID)
	case Tick:
	}
	for len(w.waiting) > 0 && len(w.flying) < mostUnconfirmed {
		if ready := w.since + gatherFor; w.busy && now < ready && w.bytes < bundle.MaxSize {
			return w.out, ready
		}
		w.send(now)
	}
	return w.out, 0
}

// End settles all records: the connection is lost. Those that were sent may be stored.
func (w *Writer) End() (todo []Effect) {
	for _, id := range slices.Sorted(maps.Keys(w.flying)) {
		for _, r := range w.flying[id] {
			todo = append(todo, Settle{r, Unknown})
		}
	}
	for _, r := range w.waiting {
		todo = append(todo, Settle{r, Refused})
	}
	w.waiting, w.bytes = nil, 0
	clear(w.flying)
	return todo
}

func (w *Writer) withdraw(r *Record) {
	if r.sent {
		return
	}
	for i, waiting := range w.waiting {
		if waiting == r {
			w.waiting = append(w.waiting[:i:i], w.waiting[i+1:]...)
			w.bytes -= r.Size()
			w.out = append(w.out, Settle{r, Refused})
			return
		}
	}
}

// send sends what fits into one bundle.
func (w *Writer) send(now time.Duration) {
	n, bytes := 0, 0
	for _, r := range w.waiting {
		size := r.Size()
		alone := r.Alone || size > bundle.LoneSize
		if n > 0 && (alone || !bundle.Fits(bytes, size)) {
			break
		}
		n++
		bytes += size
		if alone {
			break
		}
	}
	w.number++
	b := &bundle.Bundle{Writer: w.name, Number: w.number, Records: make([]bundle.Record, n)}
	for i, r := range w.waiting[:n] {
		r.sent = true
		b.Records[i] = r.Record
	}
	w.busy = n > 1
	w.flying[w.number] = w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	w.bytes -= bytes
	w.since = now
	w.out = append(w.out, Send{w.number, b})
}
