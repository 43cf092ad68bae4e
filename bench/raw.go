package bench

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"time"
)

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
