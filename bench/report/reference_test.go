package report

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// docs/backends.md takes its rates from a report of three runs.
func TestBackendsPageHasTheRatesOfTheReport(t *testing.T) {
	file, err := os.Open("../../docs/results/3.10/often/report.json")
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // it was only read
	report, err := Read(file)
	require.NoError(t, err)
	text, err := os.ReadFile("../../docs/backends.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "<!-- rates: begin -->\n")
	table, _, found := strings.Cut(rest, "\n<!-- rates: end -->")
	require.True(t, found)

	names := []string{"binaryladder", "fixedtiers", "plugin", "controller"}
	cells := make([]string, len(names))
	for i, name := range names {
		var rates []float64
		for _, r := range report.Runs {
			if r.Scenario == "rate" && r.Backend == name {
				rates = append(rates, r.MaxRate)
			}
		}
		require.Len(t, rates, 3, name)
		cells[i] = fmt.Sprintf("%s/s<br>%s–%s", format.Figure(median(rates)), format.Figure(slices.Min(rates)), format.Figure(slices.Max(rates)))
	}
	want := fmt.Sprintf("| `%s` |\n|---|---|---|---|\n| %s |", strings.Join(names, "` | `"), strings.Join(cells, " | "))
	require.Equal(t, want, table)
}
