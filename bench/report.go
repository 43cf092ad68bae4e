package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// SchemaVersion is that of report.json. It changes when a field changes its meaning or goes away.
const SchemaVersion = 1

// A Report is all that a benchmark found out. Its JSON form is report.json.
type Report struct {
	SchemaVersion int        `json:"schema_version"`
	Started       time.Time  `json:"started"`
	Seconds       float64    `json:"seconds"` // how long it took
	Partial       bool       `json:"partial"` // it was interrupted: runs are missing
	Command       string     `json:"command"` // without credentials
	Machine       Machine    `json:"machine"`
	Broker        BrokerInfo `json:"broker"`

	// GeneratorPerS is how many messages a second the benchmark itself can generate and record,
	// measured at the start without a broker, and GeneratorCPU the processor time that each took of
	// this process.
	GeneratorPerS float64 `json:"generator_per_s"`
	GeneratorCPU  float64 `json:"generator_cpu_us_per_msg"`

	Scenarios []ScenarioInfo `json:"scenarios"`
	Runs      []Run          `json:"runs"`
	Skipped   []Skip         `json:"skipped,omitempty"`

	// Leftovers say what could not be removed from the broker, and why.
	Leftovers []string `json:"leftovers,omitempty"`
}

// Machine is where the benchmark ran.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// BrokerInfo is what the benchmark ran on.
type BrokerInfo struct {
	Product  string `json:"product"`
	Version  string `json:"version"`
	How      string `json:"how"`
	Measured bool   `json:"measured"` // it is ours, so processor time and memory are known
	// IdleCPU is the processor time in per cent of one core that the broker used before anything
	// was published. It is subtracted from broker_cpu_us_per_msg.
	IdleCPU float64 `json:"idle_cpu_percent"`
	// MemorySource says what broker_rss_bytes is, where it is not the resident memory of the
	// broker's processes.
	MemorySource string `json:"memory_source,omitempty"`
}

// ScenarioInfo says what a scenario asks and what was done to answer it.
type ScenarioInfo struct {
	Name     string `json:"name"`
	Question string `json:"question"`
	Setup    string `json:"setup"`
}

// A Skip is a subject, or a whole scenario, that could not be measured on this broker.
type Skip struct {
	Scenario  string `json:"scenario,omitempty"` // of a whole scenario; the subject is empty then
	Backend   string `json:"backend"`
	Variant   string `json:"variant"`
	QueueType string `json:"queue_type"`
	Reason    string `json:"reason"`
}

// ErrSkip is in the chain of what Subject.Open returns where the broker, as it is, lacks what the
// subject needs.
var ErrSkip = errors.New("skipped")

// A Run is one scenario with one subject.
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
	EarlyByMS      float64         `json:"early_by_ms"`            // the most that a message was early
	PublishPerS    float64         `json:"publish_per_s"`          // confirmed
	BrokerCPU      float64         `json:"broker_cpu_us_per_msg"`  // 0 if it was not measured
	ProcessCPU     float64         `json:"process_cpu_us_per_msg"` // of the process that publishes, consumes and, for the controller, delays
	BrokerRSS      int64           `json:"broker_rss_bytes"`       // at the end; 0 if it was not measured
	Lateness       Lateness        `json:"lateness_ms"`
	LatenessByStep []DelayLateness `json:"lateness_by_delay,omitempty"`
	MaxRate        float64         `json:"max_rate_per_s,omitempty"` // scenario rate: the highest that passed; 0 if none did
	Probes         []Probe         `json:"probes,omitempty"`         // scenario rate: what was tried, in that order
	Findings
	Error string `json:"error"`

	// Skipped is why the subject could not be measured on this broker, or "". Such a run is in
	// Report.Skipped only.
	Skipped string `json:"-"`

	// Samples are the raw material of the above, in publishing order.
	Samples []Sample `json:"-"`
}

// Subject is the name of what was measured: backend and variant.
func (r Run) Subject() string { return Subject{Backend: r.Backend, Variant: r.Variant}.Name() }

// skip notes a run that could not be made, once for each subject.
func (r *Report) skip(run Run) {
	skip := Skip{Backend: run.Backend, Variant: run.Variant, QueueType: run.QueueType, Reason: run.Skipped}
	if !slices.Contains(r.Skipped, skip) {
		r.Skipped = append(r.Skipped, skip)
	}
}

// String names the subject and the reason.
func (s Skip) String() string {
	if s.Scenario != "" {
		return fmt.Sprintf("skipped: scenario %s: %s", s.Scenario, s.Reason)
	}
	return fmt.Sprintf("skipped: %s, %s queues: %s", Subject{Backend: s.Backend, Variant: s.Variant}.Name(), s.QueueType, s.Reason)
}

// KeptRate says whether the run was published at the rate asked for, give or take 2 %.
func (r Run) KeptRate() bool { return r.PublishPerS >= 0.98*r.Rate }

// Problem says what is wrong with the run, or "". A baseline may lose, double or be early; of it
// only that nothing at all arrived is a problem. Where the broker was taken down, a message may
// come twice, and whoever does not claim to survive that may lose some.
func (r Run) Problem() string {
	var wrong []string
	note := func(n int, what string) {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s %s", format.Thousands(n), what))
		}
	}
	if !r.Baseline {
		note(r.Early, fmt.Sprintf("early, by up to %.1f ms", r.EarlyByMS))
		if !r.LossDeclared {
			note(r.Lost, "lost")
		}
		if !r.Outage {
			note(r.Duplicated, "delivered more than once")
		}
		note(r.Failed, "failed to publish")
	}
	if r.Error != "" && (!r.Baseline || r.Delivered == 0) {
		wrong = append(wrong, r.Error)
	}
	return strings.Join(wrong, ", ")
}

// Problems lists the runs that make the benchmark fail, one line each.
func (r *Report) Problems() []string {
	var out []string
	for _, run := range r.Runs {
		if problem := run.Problem(); problem != "" {
			out = append(out, fmt.Sprintf("%s, %s, %s queues: %s", run.Scenario, run.Subject(), run.QueueType, problem))
		}
	}
	for _, left := range r.Leftovers {
		out = append(out, "left in the broker: "+left)
	}
	return out
}

// WriteJSON writes the report as report.json.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
