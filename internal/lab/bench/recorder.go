package bench

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer/internal/lab/account"
)

// A recorder is the account of a trial. Ids are numbers in the order of publishing.
type recorder struct {
	*account.Account[int]
	planned atomic.Int64 // ids that are given away
}

type sample = account.Course[int]

// A role is what a message is for: its group.
type role int

const (
	measured role = iota
	warmUp        // awaited, and in no figure
	primer        // one of few that make the subject declare its paths: not awaited, and in no figure
	backlog       // only waits: not awaited, and in no figure of those that are
)

func newRecorder() *recorder { return &recorder{Account: account.New[int](time.Now())} }

func (r *recorder) plan(n int) (first int) { return int(r.planned.Add(int64(n))) - n }

// arrival notes that the message with that id came in now. An id that is not ours is ignored.
func (r *recorder) arrival(id string) {
	at := r.Now()
	if i, err := strconv.Atoi(id); err == nil && i >= 0 && int64(i) < r.planned.Load() {
		r.Arrive(i, at)
	}
}

// samples returns what was measured and published, in the order of ids.
func (r *recorder) samples() []sample { return r.samplesOf(measured, 0) }

// samplesOf returns the messages of a role that were published, from an id on.
func (r *recorder) samplesOf(as role, from int) []sample {
	all := slices.DeleteFunc(r.Messages(), func(m sample) bool {
		return m.Group != int(as) || m.ID < from || m.Stranger()
	})
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
