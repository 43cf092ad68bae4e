package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/bench"
)

// reportFile writes a report of one run with that much broker CPU.
func reportFile(t *testing.T, scenario string, cpu float64, version int) string {
	t.Helper()
	text, err := json.Marshal(bench.Report{SchemaVersion: version, Runs: []bench.Run{{
		Scenario: scenario, Backend: "binaryladder", Variant: "source", QueueType: "quorum", Repetition: 1,
		Counts: bench.Counts{Published: 9, Delivered: 9}, BrokerCPU: cpu, Lateness: bench.Lateness{P50: 4, P99: 9},
	}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(path, text, 0o644))
	return path
}

func TestBenchCompareExitsWithWhatItFound(t *testing.T) {
	base := reportFile(t, "accuracy", 100, bench.SchemaVersion)
	for name, c := range map[string]struct {
		after  string
		flags  []string
		status int
		want   string // on either stream
	}{
		"same":        {base, nil, exitOK, "0 figures worse"},
		"within":      {reportFile(t, "accuracy", 119, bench.SchemaVersion), nil, exitOK, "within 20 %"},
		"worse":       {reportFile(t, "accuracy", 130, bench.SchemaVersion), nil, exitFailed, "worse beyond the tolerance"},
		"tolerated":   {reportFile(t, "accuracy", 130, bench.SchemaVersion), []string{"--tolerance", "35%"}, exitOK, "within 35 %"},
		"as a part":   {reportFile(t, "accuracy", 130, bench.SchemaVersion), []string{"--tolerance=0.1"}, exitFailed, "+30 %"},
		"nonsense":    {base, []string{"--tolerance", "some"}, exitUsage, "20% or 0.2"},
		"negative":    {base, []string{"--tolerance=-1%"}, exitUsage, "20% or 0.2"},
		"not a flag":  {base, []string{"--quick"}, exitUsage, "--quick"},
		"missing":     {filepath.Join(t.TempDir(), "none.json"), nil, exitUsage, "none.json"},
		"other":       {reportFile(t, "accuracy", 100, 99), nil, exitUsage, "another schema version: 99"},
		"not in both": {reportFile(t, "hol", 100, bench.SchemaVersion), nil, exitUsage, "nothing in common"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := command(t.Context(), t, append([]string{"bench", "compare", base, c.after}, c.flags...)...)
			assert.Equal(t, c.status, status, stderr)
			assert.Contains(t, stdout+stderr, c.want)
		})
	}
}

func TestBenchRenderWritesThePagesAgain(t *testing.T) {
	report := reportFile(t, "accuracy", 100, bench.SchemaVersion)
	status, stdout, stderr := command(t.Context(), t, "bench", "render", report)
	require.Equal(t, exitOK, status, stderr)
	assert.Contains(t, stdout, "wrote "+filepath.Join(filepath.Dir(report), "report.html"))

	dir := filepath.Join(t.TempDir(), "new", "folder")
	status, _, stderr = command(t.Context(), t, "bench", "render", report, "--out", dir)
	require.Equal(t, exitOK, status, stderr)
	assert.FileExists(t, filepath.Join(dir, "report.html"))
	assert.FileExists(t, filepath.Join(dir, "report.md"))

	picture := filepath.Join(dir, "picture.svg")
	status, _, stderr = command(t.Context(), t, "bench", "render", report, "--picture", picture)
	require.Equal(t, exitOK, status, stderr)
	assert.FileExists(t, picture)

	status, _, stderr = command(t.Context(), t, "bench", "render", report, "--picture", picture, "--out", dir)
	assert.Equal(t, exitUsage, status)
	assert.Contains(t, stderr, "one of them")
	status, _, stderr = command(t.Context(), t, "bench", "render", filepath.Join(dir, "report.md"))
	assert.Equal(t, exitUsage, status)
	assert.Contains(t, stderr, "not a report.json")
}

func TestBenchHelpShowsItsFlagsAndCommands(t *testing.T) {
	status, stdout, _ := command(t.Context(), t, "bench", "--help")
	assert.Equal(t, exitOK, status)
	for _, want := range []string{"--quick", "bench compare", "bench render"} {
		assert.Contains(t, stdout, want)
	}
}
