package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

func reportFile(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(report.Report{SchemaVersion: report.SchemaVersion, Runs: []report.Run{{
		Scenario: "cost", Backend: "binaryladder", Variant: "source", QueueType: "quorum", Repetition: 1,
		Counts: report.Counts{Published: 9, Delivered: 9}, BrokerCPU: 100, Lateness: report.Percentiles{P50: 4, P99: 9},
	}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(path, text, 0o644))
	return path
}

func TestRenderWritesThePagesAgain(t *testing.T) {
	file := reportFile(t)
	status, stdout, stderr := command(t.Context(), t, "render", file)
	require.Equal(t, cli.OK, status, stderr)
	assert.Contains(t, stdout, "wrote "+filepath.Join(filepath.Dir(file), "report.html"))

	dir := filepath.Join(t.TempDir(), "new", "folder")
	status, _, stderr = command(t.Context(), t, "render", file, "--out", dir)
	require.Equal(t, cli.OK, status, stderr)
	assert.FileExists(t, filepath.Join(dir, "report.html"))
	assert.FileExists(t, filepath.Join(dir, "report.bench"))

	picture := filepath.Join(dir, "picture.svg")
	status, _, stderr = command(t.Context(), t, "render", file, "--picture", picture)
	require.Equal(t, cli.OK, status, stderr)
	assert.FileExists(t, picture)

	status, _, stderr = command(t.Context(), t, "render", file, "--picture", picture, "--out", dir)
	assert.Equal(t, cli.Usage, status)
	assert.Contains(t, stderr, "can't be used together")
	status, _, stderr = command(t.Context(), t, "render", filepath.Join(dir, "report.html"))
	assert.Equal(t, cli.Failed, status)
	assert.Contains(t, stderr, "not a report.json")
}
