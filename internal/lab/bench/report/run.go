package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// A Run is one scenario with one subject. A field that the scenario did not measure is left out of
// report.json, or is 0.
type Run struct {
	Scenario   string `json:"scenario"`
	Backend    string `json:"backend"`
	Variant    string `json:"variant"`
	QueueType  string `json:"queue_type"`
	Baseline   bool   `json:"baseline"`
	Undelayed  bool   `json:"undelayed"`  // it delivers at once: the floor, not a competitor
	Repetition int    `json:"repetition"` // from 1

	Messages    int     `json:"messages"`     // to publish
	Rate        float64 `json:"rate"`         // messages per second asked for; 0 is as fast as confirmed
	Concurrency int     `json:"concurrency"`  // publishers
	DelayMinMS  float64 `json:"delay_min_ms"` // the shortest delay
	DelayMaxMS  float64 `json:"delay_max_ms"` // the longest
	Counts
	EarlyByMS   float64     `json:"early_by_ms"`            // the most that a message was early
	PublishPerS float64     `json:"publish_per_s"`          // confirmed
	BrokerCPU   float64     `json:"broker_cpu_us_per_msg"`  // 0 if it was not measured
	ProcessCPU  float64     `json:"process_cpu_us_per_msg"` // of the process that publishes, consumes and, for the controller, delays
	BrokerRSS   int64       `json:"broker_rss_bytes"`       // at the end; 0 if it was not measured
	Hops        float64     `json:"hops,omitempty"`         // queues that a message waits in, one after the other: the mean; 0 if not known
	Publish     Percentiles `json:"publish_ms"`             // how long Publish took
	Lateness    Percentiles `json:"lateness_ms"`
	MaxRate     float64     `json:"max_rate_per_s,omitempty"` // scenario rate: the highest that passed; 0 if none did
	Probes      []Probe     `json:"probes,omitempty"`         // scenario rate: in the order tried

	// BodyBytes is the size of each message's body.
	BodyBytes int `json:"body_bytes,omitempty"`

	// Waiting is how many messages were waiting when memory and disk were read.
	Waiting int `json:"waiting,omitempty"`
	// MemoryPerMessage is by how many bytes the broker's memory grew for each waiting message. It
	// is negative where that shrank.
	MemoryPerMessage float64 `json:"broker_memory_bytes_per_msg,omitempty"`
	// DiskPerMessage is by how many bytes the broker's data folder grew for each waiting message.
	DiskPerMessage float64 `json:"broker_disk_bytes_per_msg,omitempty"`

	Error string `json:"error"` // why the run ended before its end, or ""
}

// Counts says what became of the messages, counted by id.
type Counts struct {
	Published  int `json:"published"`  // Publish returned nil
	Delivered  int `json:"delivered"`  // arrived at least once
	Lost       int `json:"lost"`       // published, never arrived
	Duplicated int `json:"duplicated"` // arrived more than once
	Early      int `json:"early"`      // arrived before publish time + delay
	Failed     int `json:"failed"`     // Publish returned an error
}

// Percentiles are of milliseconds: exact, by nearest rank, from raw samples.
type Percentiles struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// A Probe is one rate that scenario rate tried. The Reason why it failed is "late" (p99 was above
// the limit), "confirms" (they came too slowly to keep the rate), "generator" (the benchmark itself
// could not keep it), or "lost" (some were lost, doubled, early or failed to publish).
type Probe struct {
	Rate        float64     `json:"rate"`
	Passed      bool        `json:"passed"`
	Reason      string      `json:"reason,omitempty"`
	PublishPerS float64     `json:"publish_per_s"` // confirmed
	Lateness    Percentiles `json:"lateness_ms"`
}

// Subject is what --backend calls what was measured: backend and variant.
func (r Run) Subject() string { return strings.TrimSpace(r.Backend + " " + r.Variant) }

// Name is the subject's in tables, on pages and while it is measured.
func (r Run) Name() string { return plainName(r.Subject()) }

// plainNames are what is said instead of a name that one must have read about.
var plainNames = strings.NewReplacer(
	"binaryladder source", "binaryladder",
	"bit-entry", "NServiceBus ladder",
	"top-entry", "Celery ladder",
)

func plainName(subject string) string { return plainNames.Replace(subject) }

// named are the subjects with their names on the pages. Where --backend calls one otherwise, it is
// said.
func (r *Report) named() []Subject {
	out := slices.Clone(r.Subjects)
	for i, s := range out {
		if out[i].Name = plainName(s.Name); out[i].Name != s.Name {
			out[i].About += ". With --backend it is " + strings.Replace(s.Name, " ", "/", 1)
		}
	}
	return out
}

// Problem says what is wrong with the run, or "". A baseline may lose, double or deliver early; it
// fails only if nothing arrived at all.
func (r Run) Problem() string {
	var wrong []string
	note := func(n int, what string) {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s %s", format.Thousands(n), what))
		}
	}
	if !r.Baseline {
		note(r.Early, fmt.Sprintf("early, by up to %.1f ms", r.EarlyByMS))
		note(r.Lost, "lost")
		note(r.Duplicated, "delivered more than once")
		note(r.Failed, "failed to publish")
	}
	if r.Error != "" && (!r.Baseline || r.Delivered == 0) {
		wrong = append(wrong, r.Error)
	}
	return strings.Join(wrong, ", ")
}
