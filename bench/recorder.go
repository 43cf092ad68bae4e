package bench

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
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

// A sample is one message's course.
type sample = account.Course[int]

// A role is what a message is for: its group.
type role int

const (
	measured role = iota
	warmUp        // awaited, and in no figure
	primer        // one of few that make the subject declare its paths: not awaited, and in no figure
	backlog       // only waits: not awaited, and in no figure of those that are
)

func (r role) awaited() bool { return r == measured || r == warmUp }

func newRecorder() *recorder { return &recorder{Account: account.New[int](time.Now())} }

// plan returns the first of n ids.
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

// rawHead are the columns of the raw samples.
var rawHead = []string{
	"scenario", "subject", "queue_type", "repetition", "id",
	"intended_us", "sent_us", "due_us", "arrived_us", "copies",
}

// A rawWriter writes the raw samples, which every figure of the report is made of: one line for
// each message that was measured, in publishing order. See docs/bench.md for the columns. Warm-up
// messages and those of a backlog are not in it.
type rawWriter struct {
	zip  *gzip.Writer
	rows *csv.Writer
	err  error
}

func newRawWriter(w io.Writer) *rawWriter {
	if w == nil {
		w = io.Discard
	}
	zip := gzip.NewWriter(w)
	raw := &rawWriter{zip: zip, rows: csv.NewWriter(zip)}
	raw.err = raw.rows.Write(rawHead)
	return raw
}

func (w *rawWriter) write(run result) {
	for _, s := range run.samples {
		arrived := ""
		if s.Copies > 0 {
			arrived = micros(s.Arrived)
		}
		w.err = errors.Join(w.err, w.rows.Write([]string{
			run.Scenario, run.Subject(), run.QueueType, strconv.Itoa(run.Repetition), strconv.Itoa(s.ID),
			micros(s.Intended), micros(s.Asked), micros(s.Due()), arrived, strconv.Itoa(s.Copies),
		}))
	}
}

func (w *rawWriter) close() error {
	w.rows.Flush()
	return errors.Join(w.err, w.zip.Close())
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
