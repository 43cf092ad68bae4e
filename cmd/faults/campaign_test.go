package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/faults"
)

func names(list []faults.Subject) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// TestCampaign_Chooses: every backend is under test, and flags choose among them and the faults.
func TestCampaign_Chooses(t *testing.T) {
	all := subjects("delayer")
	for _, name := range backend.Names() {
		assert.Contains(t, names(all), name)
	}
	var out bytes.Buffer
	c := &campaign{options: options{
		Backend: regexp.MustCompile("^controller$|^plugin$"), Fault: regexp.MustCompile("killed$"), Redeliver: 20 * time.Second,
	}, out: &out}
	c.prepare(all)
	assert.Equal(t, []string{"controller", "plugin", "controller", "controller"}, names(c.plan.Subjects), "alone, and behind serve, too")
	assert.Equal(t, 20*time.Second, c.plan.Redeliver, "lateness is judged by it")
	c.without("plugin", "the broker does not have the plugin")
	c.without("plugin", "the broker does not have the plugin")
	assert.Equal(t, "skipped: plugin: the broker does not have the plugin\n", out.String(), "said once")
	var todo []string
	for _, f := range c.chosen(false) {
		todo = append(todo, f.Name)
	}
	assert.Equal(t, []string{"broker killed", "controller killed", "serve killed"}, todo)
}

// TestCampaign_FailsByAnyRow: a broken promise and a late message fail the command.
func TestCampaign_FailsByAnyRow(t *testing.T) {
	for want, row := range map[string]faults.Row{
		"":        {Backend: "it"},
		"PROBLEM": {Backend: "it", Problems: []string{"1 missing"}},
		"SLOW":    {Backend: "it", Slow: []string{"late"}},
	} {
		var out bytes.Buffer
		c := &campaign{out: &out}
		c.print([]faults.Row{row, {}})
		assert.Equal(t, want != "", c.failed, "%v", row)
		assert.Contains(t, out.String(), want)
	}
}

// TestCampaign_MadeInParts: each row is that of the last run, and what made it is said.
func TestCampaign_MadeInParts(t *testing.T) {
	folder := t.TempDir()
	write := func(seed uint64, broker string, rows ...faults.Row) error {
		c := &campaign{options: options{Seed: seed, Out: folder}, broker: broker, rows: rows}
		return c.write()
	}
	none, killed := faults.Row{Fault: "none", Backend: "it"}, faults.Row{Fault: "killed", Backend: "it"}
	require.NoError(t, write(1, "RabbitMQ 3.10.8", none, killed))
	killed.Twice = 3
	require.NoError(t, write(2, "RabbitMQ 3.10.8", killed))
	require.Error(t, write(3, "RabbitMQ 3.10.9", none), "another broker")
	s, err := readSeries(filepath.Join(folder, "3.10.json"))
	require.NoError(t, err)
	assert.Equal(t, []faults.Row{none, killed}, s.Results)
	require.Len(t, s.Runs, 2)
	assert.Contains(t, s.Runs[1], "seed 2")
}

// TestResults: docs/measured.md has a table of each campaign, whose rows are those that --table
// prints. Rows may be left out, but none that tells of a message that was lost or early.
func TestResults(t *testing.T) {
	page, err := os.ReadFile("../../docs/measured.md")
	require.NoError(t, err)
	files, err := filepath.Glob("../../docs/results/faults/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		s, err := readSeries(file)
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(page), "### "+s.Broker+"\n\n")
		require.True(t, found, s.Broker)
		shown, _, _ := strings.Cut(rest, "\n\n")
		printed := strings.Split(strings.TrimSuffix(s.Table(), "\n"), "\n")
		rows := strings.Split(shown, "\n")
		require.Equal(t, printed[:2], rows[:2], "go run ./cmd/faults --table %s", file)
		assert.Subset(t, printed, rows, "go run ./cmd/faults --table %s", file)
		for _, row := range printed {
			if strings.Contains(row, "lost ") || strings.Contains(row, "early ") {
				assert.Contains(t, rows, row, file)
			}
		}
	}
}
