package bench

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A recorder keeps a sample of every message, by id. Each sample's publishing side is written by
// the one goroutine that publishes it and read once publishing is over; the arriving side is under
// the lock.
type recorder struct {
	epoch time.Time

	published atomic.Int64 // promised by Publish
	awaited   atomic.Int64 // of those, the ones that are to arrive before the run ends
	failed    atomic.Int64
	arrived   atomic.Int64 // ids, not copies
	lastDue   atomic.Int64 // of what is awaited

	mu      sync.Mutex
	entries []*entry
	latest  time.Duration // the latest arrival
}

type entry struct {
	Sample
	role    role
	arrived time.Duration // guarded by recorder.mu, as is copies
	copies  int
}

// A role is what a message is for.
type role int

const (
	measured role = iota
	warmUp        // awaited, and in no figure
	primer        // makes the subject declare its path: not awaited, and in no figure
	backlog       // only waits: not awaited, and in no figure of those that are
)

func (r role) awaited() bool { return r == measured || r == warmUp }

func newRecorder() *recorder { return &recorder{epoch: time.Now()} }

// now is never 0, so that 0 can mean "not yet".
func (r *recorder) now() time.Duration { return time.Since(r.epoch) + 1 }

// add makes room for messages with these delays, and returns them and the first one's id.
func (r *recorder) add(delays []time.Duration, as role) (planned []*entry, first int) {
	block := make([]entry, len(delays))
	planned = make([]*entry, len(delays))
	for i := range block {
		block[i].Delay, block[i].role = delays[i], as
		planned[i] = &block[i]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first = len(r.entries)
	for i := range block {
		block[i].ID = first + i
	}
	r.entries = append(r.entries, planned...)
	return planned, first
}

// returned notes the outcome of one Publish.
func (r *recorder) returned(e *entry, err error) {
	e.Returned, e.Err = r.now(), err
	if err != nil {
		r.failed.Add(1)
		return
	}
	r.published.Add(1)
	if e.role.awaited() {
		r.awaited.Add(1)
	}
}

// due notes how long there is something to wait for. It takes no lock, since it is called for every
// message.
func (r *recorder) due(at time.Duration) {
	for {
		last := r.lastDue.Load()
		if int64(at) <= last || r.lastDue.CompareAndSwap(last, int64(at)) {
			return
		}
	}
}

// arrival notes that the message with that id came in now. An id that is not ours is ignored.
func (r *recorder) arrival(id string) {
	at := r.now()
	i, err := strconv.Atoi(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || i < 0 || i >= len(r.entries) {
		return
	}
	e := r.entries[i]
	e.copies++
	if e.copies == 1 {
		e.arrived = at
	}
	if e.role.awaited() {
		r.latest = at
		r.arrived.Add(int64(one(e.copies == 1)))
	}
}

// await returns once all that was promised has arrived, or nothing more has for as long as patience
// after the last was due, or nothing more can since the consumer is gone. It is called when
// publishing is over.
func (r *recorder) await(ctx context.Context, gone <-chan struct{}, patience time.Duration) error {
	const interval = 5 * time.Millisecond
	poll := time.NewTicker(interval)
	defer poll.Stop()
	for {
		if r.complete() || r.now() > r.quietSince()+patience {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-gone:
			return nil
		case <-poll.C:
		}
	}
}

func (r *recorder) quietSince() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(time.Duration(r.lastDue.Load()), r.latest)
}

func (r *recorder) complete() bool {
	if r.arrived.Load() < r.awaited.Load() {
		return false // cheap, and enough most of the time
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if e.role.awaited() && e.Published() && e.copies == 0 {
			return false
		}
	}
	return true
}

// samples copies what was measured, in the order of ids.
func (r *recorder) samples() []Sample { return r.samplesOf(measured) }

func (r *recorder) samplesOf(as role) []Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Sample, 0, len(r.entries))
	for _, e := range r.entries {
		if e.role != as {
			continue
		}
		s := e.Sample
		s.Arrived, s.Copies = e.arrived, e.copies
		out = append(out, s)
	}
	return out
}
