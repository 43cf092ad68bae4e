// Package writer gathers records into bundles for the log: the pure part of publishing. The first
// record is sent at once. What comes while bundles are unconfirmed goes into the next one. Where
// several come at a time, a bundle is gathered for a few milliseconds: each costs the broker about
// as much as a lone message.
//
// A bundle is made when it is written, not when that is decided: while a connection is slow or
// blocked, records join the bundle that waits, and can be withdrawn from it.
package writer

import (
	"maps"
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
)

const (
	// mostUnconfirmed is how many bundles may be unconfirmed or reserved.
	mostUnconfirmed = 2
	// gatherFor is how long a bundle is gathered if the last one had more than one record.
	gatherFor = 3 * time.Millisecond
	// mostWaiting is how many bytes of records may wait to be sent: see Full.
	mostWaiting = 4 << 20
)

// A Record is one to be written.
type Record struct {
	bundle.Record
	Lone  bool // it is a bundle of its own: it has properties that the broker checks
	Alone bool // and nothing else is unconfirmed beside it: the broker may not take it
	Of    any  // the caller's
	came  time.Duration
}

// An Event is something that has happened: one of the types below.
type Event any

type (
	// Tick is that time has passed.
	Tick struct{}
	// Submit has a record written.
	Submit struct{ Record *Record }
	// Withdraw takes a record back if it is in no bundle yet: then Settle says Refused.
	Withdraw struct{ Record *Record }
	// Confirmed tells what became of a bundle that was taken.
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
	// Send reserves the next bundle, which is to be published to the log, mandatory and confirmed.
	// When the connection is ready to write it, the shell calls [Writer.Take], and then steps a
	// Tick. There is no other Send before that.
	Send struct {
		ID uint64 // also the number of the bundle
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
	bytes   int // of those
	flying  map[uint64][]*Record
	number  uint64 // of the last bundle that was reserved
	untaken bool   // it has not been taken
	busy    bool   // the last bundle had more than one record
}

// New returns the writer of a process, whose name nobody else has.
func New(name string) *Writer { return &Writer{name: name, flying: map[uint64][]*Record{}} }

// Full reports whether so much waits that nothing more should be submitted.
func (w *Writer) Full() bool { return w.bytes >= mostWaiting }

// Next is the record with which the next bundle begins; nil: there is none.
func (w *Writer) Next() *Record {
	if len(w.waiting) == 0 {
		return nil
	}
	return w.waiting[0]
}

// Step takes an event, and returns what is to be done, and when a Tick is due; 0: none is. The
// effects are valid until the next Step.
func (w *Writer) Step(now time.Duration, e Event) (todo []Effect, next time.Duration) {
	w.out = w.out[:0]
	switch e := e.(type) {
	case Submit:
		e.Record.came = now
		w.waiting = append(w.waiting, e.Record)
		w.bytes += e.Record.Size()
	case Withdraw:
		if i := slices.Index(w.waiting, e.Record); i >= 0 {
			w.waiting = slices.Delete(w.waiting, i, i+1)
			w.bytes -= e.Record.Size()
			w.out = append(w.out, Settle{e.Record, Refused})
		}
	case Confirmed:
		for _, r := range w.flying[e.ID] {
			w.out = append(w.out, Settle{r, e.Outcome})
		}
		delete(w.flying, e.ID)
	case Tick:
	}
	return w.out, w.reserve(now)
}

// reserve reserves a bundle if one is wanted, and returns when a Tick is due.
func (w *Writer) reserve(now time.Duration) (next time.Duration) {
	if w.untaken || len(w.waiting) == 0 || len(w.flying) >= mostUnconfirmed {
		return 0
	}
	for _, flying := range w.flying {
		if flying[0].Alone || w.waiting[0].Alone {
			return 0
		}
	}
	if ready := w.waiting[0].came + gatherFor; w.busy && now < ready && w.bytes < bundle.MaxSize {
		return ready
	}
	w.number++
	w.untaken = true
	w.out = append(w.out, Send{w.number})
	return 0
}

// End settles all records: the connection is lost. Those that were taken may be stored.
func (w *Writer) End() (todo []Effect) {
	for _, id := range slices.Sorted(maps.Keys(w.flying)) {
		for _, r := range w.flying[id] {
			todo = append(todo, Settle{r, Unknown})
		}
	}
	for _, r := range w.waiting {
		todo = append(todo, Settle{r, Refused})
	}
	w.waiting, w.bytes, w.untaken = nil, 0, false
	clear(w.flying)
	return todo
}

// Take makes a reserved bundle of what waits and fits into one. It is nil if all records were
// withdrawn, or the connection is lost: then the reservation is over.
func (w *Writer) Take(id uint64) *bundle.Bundle {
	if !w.untaken || id != w.number {
		return nil
	}
	w.untaken = false
	n := w.fitting()
	if n == 0 {
		return nil
	}
	b := &bundle.Bundle{Writer: w.name, Number: id, Records: make([]bundle.Record, n)}
	for i, r := range w.waiting[:n] {
		w.bytes -= r.Size()
		b.Records[i] = r.Record
	}
	w.busy = n > 1
	w.flying[id] = w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	return b
}

// fitting is how many of the records that wait fit into one bundle.
func (w *Writer) fitting() (n int) {
	bytes := 0
	for _, r := range w.waiting {
		size := r.Size()
		lone := r.Lone || r.Alone || size > bundle.LoneSize
		if n > 0 && (lone || !bundle.Fits(bytes, size)) {
			return n
		}
		n++
		if lone {
			return n
		}
		bytes += size
	}
	return n
}
