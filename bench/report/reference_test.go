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

// docs/backends.md takes its rates from the reference report.
func TestBackendsPageHasTheRatesOfTheReference(t *testing.T) {
	file, err := os.Open("../../docs/results/3.10/report.json")
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // it was only read
	reference, err := Read(file)
	require.NoError(t, err)
	text, err := os.ReadFile("../../docs/backends.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "<!-- rates: begin -->\n")
	table, _, found := strings.Cut(rest, "\n<!-- rates: end -->")
	require.True(t, found)

	names := []string{"binaryladder", "fixedtiers", "plugin", "controller"}
	rates := make([]string, len(names))
	for i, name := range names {
		at := slices.IndexFunc(reference.Runs, func(r Run) bool {
			return r.Scenario == "rate" && r.QueueType == "quorum" && r.Backend == name
		})
		require.NotEqual(t, -1, at, name)
		rates[i] = rateText(reference.Runs[at])
	}
	want := fmt.Sprintf("| `%s` |\n|---|---|---|---|\n| %s |", strings.Join(names, "` | `"), strings.Join(rates, " | "))
	require.Equal(t, want, table)
}

func rateText(r Run) string {
	lowest, failed := lowestFailed(r)
	if !failed {
		return "at least " + format.Figure(r.MaxRate) + "/s"
	}
	return format.Figure(r.MaxRate) + "–" + format.Figure(lowest.Rate) + "/s"
}
