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

// WriteSamples writes the raw samples, which every figure of the report was made of, as
// samples.csv.gz: one line for each message that was measured, in publishing order, after a line of
// column names. Times are microseconds on the process's monotonic clock since that run began.
// intended is when the message was to be published, sent just before Publish was called (0: it
// never was), due is intended + delay; arrived is the first arrival, empty if there was none;
// copies is how often it arrived. Warm-up messages, and those of a backlog that nobody waited for,
// are not in it. A report that was read from a file has no samples.
func (r *Report) WriteSamples(w io.Writer) error {
	zip := gzip.NewWriter(w)
	rows := csv.NewWriter(zip)
	err := rows.Write(rawHead)
	for _, run := range r.Runs {
		for _, s := range run.Samples {
			err = errors.Join(err, rows.Write(rawRow(run, s)))
		}
	}
	rows.Flush()
	return errors.Join(err, rows.Error(), zip.Close())
}

func rawRow(run Run, s Sample) []string {
	arrived := ""
	if s.Copies > 0 {
		arrived = micros(s.Arrived)
	}
	return []string{
		run.Scenario, run.Subject(), run.QueueType, strconv.Itoa(run.Repetition), strconv.Itoa(s.ID),
		micros(s.Intended), micros(s.Sent), micros(s.Due()), arrived, strconv.Itoa(s.Copies),
	}
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
