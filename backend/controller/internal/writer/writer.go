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

	"github.com/delayer-go/delayer/internal/lib/bundle"
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
	Of   any // the caller's
	came time.Duration
}

// A Writer writes for one process. The zero value is not ready: use [New].
type Writer struct {
	name    string
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

// Submit has a record written. Reserve must follow, as after Take and Confirmed.
func (w *Writer) Submit(now time.Duration, r *Record) {
	r.came = now
	w.waiting = append(w.waiting, r)
	w.bytes += r.Size()
}

// Withdraw takes a record back, and reports whether it could: it is in no bundle yet.
func (w *Writer) Withdraw(r *Record) bool {
	i := slices.Index(w.waiting, r)
	if i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
		w.bytes -= r.Size()
	}
	return i >= 0
}

// Confirmed returns the records of a bundle that was taken, and of which it is known what became.
func (w *Writer) Confirmed(id uint64) []*Record {
	settled := w.flying[id]
	delete(w.flying, id)
	return settled
}

// Reserve reserves the next bundle if one is wanted. id is its number; 0: none is, and next is when
// to call it again; 0: not for the time. The bundle is to be published to the log, mandatory and
// confirmed: when the connection is ready to write it, call Take. No other is reserved before that.
func (w *Writer) Reserve(now time.Duration) (id uint64, next time.Duration) {
	if w.untaken || len(w.waiting) == 0 || len(w.flying) >= mostUnconfirmed {
		return 0, 0
	}
	if ready := w.waiting[0].came + gatherFor; w.busy && now < ready && w.bytes < bundle.MaxSize {
		return 0, ready
	}
	w.number++
	w.untaken = true
	return w.number, 0
}

// End returns all records: the connection is lost. Those that were taken may be stored.
func (w *Writer) End() (taken, waiting []*Record) {
	for _, id := range slices.Sorted(maps.Keys(w.flying)) {
		taken = append(taken, w.flying[id]...)
	}
	waiting = w.waiting
	w.waiting, w.bytes, w.untaken = nil, 0, false
	clear(w.flying)
	return taken, waiting
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
		lone := r.User != "" || size > bundle.LoneSize // the broker checks the user, or may not take it
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
