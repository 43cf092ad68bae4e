package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteBenchfmt writes report.bench: the report in Go's benchmark text format, which benchstat
// compares (https://go.dev/design/14313-benchmark-format). Each run is a line; values are in
// seconds and bytes. What was not measured is left out.
func (r *Report) WriteBenchfmt(w io.Writer) error {
	var b strings.Builder
	for _, setting := range [][2]string{
		{"goos", r.Machine.OS}, {"goarch", r.Machine.Arch}, {"cores", strconv.Itoa(r.Machine.CPUs)},
		{"broker", r.Broker.Product + " " + r.Broker.Version},
	} {
		fmt.Fprintf(&b, "%s: %s\n", setting[0], setting[1])
	}
	b.WriteString("\n")
	for _, m := range measures {
		better := "lower"
		if m.higher {
			better = "higher"
		}
		unit, _ := m.benchUnit()
		fmt.Fprintf(&b, "Unit %s better=%s\n", unit, better)
	}
	b.WriteString("\n")
	for _, run := range r.Runs {
		name := fmt.Sprintf("Benchmark%s%s/subject=%s/queues=%s", strings.ToUpper(run.Scenario[:1]), run.Scenario[1:],
			strings.ReplaceAll(run.Subject(), " ", "_"), run.QueueType)
		if len(run.Probes) == 0 { // scenario rate finds out how many messages there are
			name += fmt.Sprintf("/messages=%d", run.Messages)
		}
		var values []string
		for _, m := range measures {
			if v, known := m.value(run); known && m.in(run.Scenario) {
				unit, scale := m.benchUnit()
				values = append(values, strconv.FormatFloat(v*scale, 'g', 6, 64)+" "+unit)
			}
		}
		if len(values) > 0 {
			fmt.Fprintf(&b, "%s %d %s\n", name, max(1, run.Published), strings.Join(values, " "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// seconds are the units that need conversion: benchstat chooses prefixes itself.
var seconds = map[string]struct {
	unit  string
	scale float64
}{"ms": {"sec", 1e-3}, "µs/msg": {"sec/msg", 1e-6}}

// benchUnit is the measure's name and unit, and by what to multiply its values.
func (m measure) benchUnit() (unit string, scale float64) {
	unit, scale = m.unit, 1
	if s, ok := seconds[m.unit]; ok {
		unit, scale = s.unit, s.scale
	}
	return strings.NewReplacer(",", "", " ", "-").Replace(m.name) + "-" + unit, scale
}
