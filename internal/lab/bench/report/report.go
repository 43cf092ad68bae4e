// Package report holds the result of a benchmark and writes it for people and programs: tables for
// a terminal, report.html, a picture, and benchstat's format. All of them need only report.json.
// Several repetitions of a run are shown as their median, the lowest and the highest.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// SchemaVersion is that of report.json. It changes when a field changes its meaning or goes away.
const SchemaVersion = 1

// A Report is the result of a benchmark. Its JSON form is report.json.
type Report struct {
	SchemaVersion int       `json:"schema_version"`
	Started       time.Time `json:"started"`
	Seconds       float64   `json:"seconds"` // how long it took
	Partial       bool      `json:"partial"` // interrupted: runs are missing
	Command       string    `json:"command"` // without credentials
	Machine       Machine   `json:"machine"`
	Broker        Broker    `json:"broker"`

	Scenarios []Scenario `json:"scenarios"`
	Subjects  []Subject  `json:"subjects,omitempty"` // that were to be measured
	Runs      []Run      `json:"runs"`
	Skipped   []Skip     `json:"skipped,omitempty"`

	// Leftovers name what could not be removed from the broker, and why.
	Leftovers []string `json:"leftovers,omitempty"`
}

// Machine is where the benchmark ran.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`

	// Model is the processor's, and Kernel the system's; "" where they are not known.
	Model  string `json:"model,omitempty"`
	Kernel string `json:"kernel,omitempty"`
}

// Broker is the RabbitMQ that was measured.
type Broker struct {
	Product  string `json:"product"`
	Version  string `json:"version"`
	How      string `json:"how"`                // how it was found
	Platform string `json:"platform,omitempty"` // such as "Erlang/OTP 25.2.3"
	Measured bool   `json:"measured"`           // its processor time is known
	// IdleCPU is the processor time in per cent of one core that the broker used before anything
	// was published. It is subtracted from broker_cpu_us_per_msg.
	IdleCPU float64 `json:"idle_cpu_percent"`
}

// A Scenario is one question, and what was done to answer it.
type Scenario struct {
	Name     string `json:"name"`
	Question string `json:"question"`
	Setup    string `json:"setup"`
}

// A Subject is what is measured, in words.
type Subject struct {
	Name  string `json:"name"` // that of [Run.Subject]
	About string `json:"about"`
}

// A Skip is a subject that could not be measured on this broker.
type Skip struct {
	Backend   string `json:"backend"`
	Variant   string `json:"variant"`
	QueueType string `json:"queue_type"`
	Reason    string `json:"reason"`
}

// String names the subject and the reason.
func (s Skip) String() string {
	return fmt.Sprintf("skipped: %s, %s queues: %s", Run{Backend: s.Backend, Variant: s.Variant}.Name(), s.QueueType, s.Reason)
}

// Problems lists what makes the benchmark fail, one line each: the runs with a [Run.Problem], and
// what could not be removed from the broker.
func (r *Report) Problems() (out []string) {
	for _, run := range r.Runs {
		if problem := run.Problem(); problem != "" {
			out = append(out, fmt.Sprintf("%s, %s, %s queues: %s", run.Scenario, run.Name(), run.QueueType, problem))
		}
	}
	for _, left := range r.Leftovers {
		out = append(out, "left in the broker: "+left)
	}
	return out
}

// Read reads a report.json. The error says what is wrong with the file; a report of another schema
// version is an error.
func Read(in io.Reader) (*Report, error) {
	var report Report
	if err := json.NewDecoder(in).Decode(&report); err != nil {
		return nil, fmt.Errorf("not a report.json: %w", err)
	}
	switch report.SchemaVersion {
	case SchemaVersion:
		return &report, nil
	case 0:
		return nil, errors.New("not a report.json: it has no schema_version")
	}
	return nil, fmt.Errorf("another schema version: %d, and this is a delayer for %d (make the report again, or read it with the delayer that wrote it)",
		report.SchemaVersion, SchemaVersion)
}

// WriteJSON writes report.json.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
