package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/faults"
)

func TestCommandLine_RepeatsTheCampaign(t *testing.T) {
	assert.Equal(t, "go run ./cmd/faults --fault '^none$' --seed=7",
		commandLine([]string{"--fault", "^none$", "--write", "/home/me/page.md", "--verbose", "--write=/tmp/x", "--seed=7"}))
	assert.Equal(t, "go run ./cmd/faults", commandLine([]string{"--write"}))
}

func names(list []faults.Subject) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// TestSubjects: every backend is under test, and a message in eight waits long where that is asked
// for.
func TestSubjects(t *testing.T) {
	all := names(subjects("delayer", "postgres://", 0))
	for _, name := range backend.Names() {
		assert.Contains(t, strings.Join(all, ", "), name)
	}
	assert.Subset(t, all, []string{"binaryladder source", "binaryladder topic", "fixedtiers", "controller", "controller slots", "controller alone", "slots alone", "retry, binaryladder", outboxName})
	assert.NotContains(t, names(subjects("delayer", "", 0)), outboxName)
	with, without := subjects("delayer", "postgres://", time.Hour), subjects("delayer", "postgres://", 0)
	for i, s := range with {
		if s.Name == "fixedtiers" {
			assert.Equal(t, without[i].Delays, s.Delays, "which has no such tier")
			continue
		}
		assert.Equal(t, append(without[i].Delays, time.Hour), s.Delays, s.Name)
	}
}

func TestCampaign_ChoosesSubjectsAndFaults(t *testing.T) {
	c := &campaign{options: options{Backend: "^controller slots$|^plugin$", Fault: "killed$", Messages: 3, Rate: 5, Redeliver: 20 * time.Second, Churn: time.Minute}, out: &bytes.Buffer{}}
	c.prepare(regexp.MustCompile(c.Backend), subjects("delayer", "", 0))
	assert.Equal(t, []string{"controller slots", "plugin"}, names(c.plan.Subjects))
	assert.Equal(t, faults.Load{Publishers: 16, Rate: 5, Patience: 5 * time.Second}, c.plan.Load)
	assert.Equal(t, 20*time.Second, c.plan.Redeliver, "lateness is judged by it")
	assert.Equal(t, 3, c.plan.Messages)
	c.without("plugin")
	assert.Equal(t, []string{"controller slots"}, names(c.plan.Subjects))
	c.without("plugin")
	assert.Equal(t, "skipped: plugin: the broker does not have the plugin\n", c.out.(*bytes.Buffer).String(), "said once")

	chosen, err := c.chosen([]faults.Fault{{Name: "broker killed"}, {Name: "none"}, {Name: "leader killed"}})
	require.NoError(t, err)
	assert.Len(t, chosen, 2)
	assert.False(t, c.churns(), "--fault leaves it out")
	c.Fault = "churn"
	assert.True(t, c.churns())
	c.Churn = 0
	assert.False(t, c.churns())
	c.Fault = "("
	_, err = c.chosen(nil)
	require.Error(t, err)
	_, err = run(t.Context(), options{Backend: "("}, c.out)
	require.Error(t, err)
}

// TestCampaign_FailsByAnyRow: a broken promise and a late message fail the command.
func TestCampaign_FailsByAnyRow(t *testing.T) {
	for want, row := range map[string]faults.Row{
		"":        {Subject: "it"},
		"PROBLEM": {Subject: "it", Problems: []string{"1 missing"}},
		"SLOW":    {Subject: "it", Slow: []string{"late"}},
	} {
		var out bytes.Buffer
		c := &campaign{out: &out}
		c.print(row)
		assert.Equal(t, want != "", c.failed, "%v", row)
		assert.Contains(t, out.String(), want)
		assert.Len(t, c.all, 1)
		c.print(faults.Row{})
		assert.Equal(t, want != "", c.failed, "a good row after it changes nothing")
	}
}

// TestCampaign_WritesItsSection: what some backends were tried with alone replaces no row of the
// others.
func TestCampaign_WritesItsSection(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("<!-- make faults: begin -->\n<!-- make faults: end -->\n"), 0o600))
	c := &campaign{out: &bytes.Buffer{}, options: options{Write: page, Seed: 42}, broker: "RabbitMQ 3.10.8"}
	require.NoError(t, c.write(), "nothing was done yet")
	c.print(faults.Row{Fault: faults.Fault{Name: "none"}, Subject: "all"})
	require.NoError(t, c.write())
	c.Backend, c.plan.Subjects, c.rows = "slots", []faults.Subject{{Name: "slots"}, {Name: "slots"}}, nil
	c.print(faults.Row{Fault: faults.Fault{Name: "none"}, Subject: "slots"})
	require.NoError(t, c.write())
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(text), "### RabbitMQ 3.10.8\n\n- none: by `go run ./cmd/faults")
	assert.Contains(t, string(text), "### RabbitMQ 3.10.8: slots\n")
	assert.Contains(t, string(text), "seed 42")
	assert.Contains(t, string(text), "| none | all |")
}

// TestClock: this toolchain's Now is written as the program with the wrong clock needs it.
func TestClock(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go"))
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(source), nowBefore), runtime.Version())
	assert.Contains(t, nowAfter, nowBefore)
	overlay, err := writeOverlay(t.TempDir(), map[string]string{"/a/time.go": "package time"})
	require.NoError(t, err)
	text, err := os.ReadFile(overlay)
	require.NoError(t, err)
	assert.Contains(t, string(text), `{"Replace":{"/a/time.go":"`)
}

// TestShiftedClock_Fails: a program with a wrong clock that could not do its faults has no rows, and
// no promise of theirs is kept.
func TestShiftedClock_Fails(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	run := func(rows string, exit int) (int, error) {
		program := filepath.Join(t.TempDir(), "program")
		script := fmt.Sprintf("#!/bin/sh\necho none: FAILED: why >&2\necho '{\"Now\":%d,\"Rows\":%s}'\nexit %d\n", time.Now().Add(time.Hour).Unix(), rows, exit)
		require.NoError(t, os.WriteFile(program, []byte(script), 0o700))
		got, err := (&campaign{}).inShiftedClock(t.Context(), program, "+")
		return len(got), err
	}
	_, err := run("null", 1)
	require.ErrorContains(t, err, "none: FAILED: why")
	_, err = run(`[{"Subject":"a"}]`, 1)
	require.ErrorContains(t, err, "none: FAILED: why", "a row, and no promise that it has broken")
	n, err := run(`[{"Subject":"a"},{"Subject":"b","Problems":["1 early"]}]`, 1)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = run(`[{"Subject":"a"}]`, 0)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
