// Package project_test looks at what the project is made, released and deployed with, and runs the
// programs of its pages and examples.
package project_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

const root = "../../../../"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(root + path)
	require.NoError(t, err)
	return string(text)
}

// TestSummary: who reads how a run of the tests ended learns first what it says nothing about.
func TestSummary(t *testing.T) {
	of := func(lines ...string) string {
		file := filepath.Join(t.TempDir(), "summary")
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		said, err := exec.Command("sh", root+"scripts/test.sh", "summary", file).CombinedOutput()
		require.NoError(t, err, string(said))
		return string(said)
	}
	said := of("backend: broker: RabbitMQ 3.10.8, private node",
		"backend: skipped: TestA, TestB: the broker has no plugin rabbitmq_delayed_message_exchange",
		"project: skipped: TestC: needs a broker in Docker (DELAYER_BROKER=docker)",
		"broker: skipped: TestD: needs RabbitMQ 4.3", "longdelays: skipped: TestE: no libfaketime on this machine")
	assert.Contains(t, said, `
Summary
  5 tests did not run:
       2 in backend: the broker has no plugin rabbitmq_delayed_message_exchange
`)
	assert.Contains(t, said, `
  not tested: the backend plugin, the way off it, and serve in its place
  not tested: the images, and a broker in a container
  not tested: what only RabbitMQ 4.3 and later can do
  not tested: delays of hours to years on a real broker
  not tested: every RabbitMQ but 3.10.8 (make test-matrix)
`)
	assert.NotContains(t, of("backend: skipped: TestA: there is no curl"), "not tested")
}

// parse reads the only document of a file, or all of them.
func parse[T any](t *testing.T, path string) (documents []T) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(read(t, path))); ; {
		var one T
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return documents
		}
		require.NoError(t, err, path)
		documents = append(documents, one)
	}
}

type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Steps []struct {
			Uses, Run string
			With      map[string]any
		}
	}
}

// TestWorkflows: what they use is pinned, and what they run is there. They have one version of Go,
// of the image's series.
func TestWorkflows(t *testing.T) {
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	runs, versions := "", map[string]bool{}
	for _, name := range []string{"ci", "release"} {
		w := parse[workflow](t, ".github/workflows/"+name+".yml")[0]
		require.NotEmpty(t, w.Permissions, name)
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				if step.Run == "" {
					assert.Regexp(t, pinned, step.Uses)
				}
				if strings.HasPrefix(step.Uses, "actions/setup-go@") {
					versions[fmt.Sprint(step.With["go-version"])] = true
				}
				runs += step.Run + "\n"
			}
		}
	}
	require.Len(t, versions, 1)
	for version := range versions {
		require.Regexp(t, `^\d+\.\d+\.\d+$`, version)
		require.Contains(t, read(t, "Dockerfile"), "FROM golang:"+version[:strings.LastIndex(version, ".")]+" ")
	}
	for _, script := range []string{".ci/run", "scripts/release-notes.sh"} {
		require.Contains(t, runs, script)
		info, err := os.Stat(root + script)
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&0o111, "%s cannot be run", script)
	}
	releasers := regexp.MustCompile(`goreleaser/v2@(v\d+\.\d+\.\d+) (\w+)`).FindAllStringSubmatch(runs, -1)
	require.Len(t, releasers, 2)
	check, release := releasers[0], releasers[1]
	require.Equal(t, []string{"check", "release"}, []string{check[2], release[2]})
	require.Equal(t, release[1], check[1], "the one that will release checks")
}

// TestRelease_Reproducible: the same commit makes the same bytes.
func TestRelease_Reproducible(t *testing.T) {
	type release struct {
		Version int
		Builds  []struct {
			Main, Binary string
			Env          []string
			Flags        []string
			Ldflags      []string
			ModTimestamp string `yaml:"mod_timestamp"`
		}
		Archives []struct {
			Files []struct {
				Src  string
				Info struct{ Mtime string }
			}
		}
	}
	r := parse[release](t, ".goreleaser.yaml")[0]
	require.Equal(t, 2, r.Version)
	require.Len(t, r.Builds, 2)
	for _, b := range r.Builds {
		require.Equal(t, "./cmd/"+b.Binary, b.Main)
		require.DirExists(t, root+b.Main)
		require.Contains(t, b.Env, "CGO_ENABLED=0")
		require.Contains(t, b.Flags, "-trimpath")
		require.Contains(t, strings.Join(b.Ldflags, " "), "-buildid=")
		require.Equal(t, "{{ .CommitTimestamp }}", b.ModTimestamp)
	}
	for _, file := range r.Archives[0].Files {
		require.FileExists(t, root+file.Src)
		require.Equal(t, "{{ .CommitDate }}", file.Info.Mtime)
	}
}

// TestResults_NoBroker: who can measure nothing learns what to do.
func TestResults_NoBroker(t *testing.T) {
	run := func(docker string) (said string) {
		bin := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/sh\n"+docker+"\n"), 0o700))
		cmd := exec.Command("sh", root+"scripts/results.sh")
		cmd.Env = append(os.Environ(), "DELAYER_BROKER=", "SERIES=4.3", "IMAGE=", "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "%s", out)
		return string(out)
	}
	require.Equal(t, "nothing was measured: there is no Docker engine "+
		"(start one, or measure this machine's RabbitMQ: DELAYER_BROKER=node make results)\n", run("exit 1"))
	require.Equal(t, "4.3: not measured: there is no image rabbitmq:4.3 here, and it cannot be pulled (name yours with IMAGE)\n",
		run(`[ "$1" = info ]`))
}

func TestReleaseNotes(t *testing.T) {
	notes, err := exec.CommandContext(t.Context(), root+"scripts/release-notes.sh", "Unreleased").Output()
	require.NoError(t, err)
	_, section, found := strings.Cut(read(t, "CHANGELOG.md"), "\n## Unreleased\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	require.Equal(t, strings.TrimSpace(section), strings.TrimSpace(string(notes)))
	out, err := exec.CommandContext(t.Context(), root+"scripts/release-notes.sh", "99.0.0").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), `no section "## 99.0.0"`)
}

func TestIssueTemplates(t *testing.T) {
	type template struct {
		Name, Description string
		Body              []struct {
			Type, ID   string
			Attributes struct {
				Label   string
				Options []any
			}
		}
	}
	for _, name := range []string{"bug", "feature"} {
		form := parse[template](t, ".github/ISSUE_TEMPLATE/"+name+".yml")[0]
		require.NotEmpty(t, form.Name)
		require.NotEmpty(t, form.Description)
		require.NotEmpty(t, form.Body)
		for _, field := range form.Body {
			require.NotEmpty(t, field.Attributes.Label, name)
			if field.ID == "backend" {
				for _, known := range backend.Names() {
					require.Contains(t, field.Attributes.Options, known)
				}
			}
		}
	}
}

// dockerfile are its instructions.
func dockerfile(t *testing.T) (lines []string) {
	for line := range strings.Lines(read(t, "Dockerfile")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// finalStage is what is left of the Dockerfile without the build.
func finalStage(t *testing.T) []string {
	lines := dockerfile(t)
	at := slices.Index(lines, "FROM scratch")
	require.Positive(t, at)
	return lines[at:]
}

// instruction is what follows a word of the final stage, as JSON or as it is.
func instruction(t *testing.T, word string) string {
	for _, line := range finalStage(t) {
		if rest, found := strings.CutPrefix(line, word+" "); found {
			return rest
		}
	}
	t.Fatal("the Dockerfile has no", word)
	return ""
}

func TestDockerfile(t *testing.T) {
	require.Contains(t, strings.Join(dockerfile(t), "\n"), "CGO_ENABLED=0 go build -trimpath")
	require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, instruction(t, "USER"), "a number: Kubernetes compares no names")
	require.Equal(t, `["/delayer"]`, instruction(t, "ENTRYPOINT"))
	require.Contains(t, instruction(t, "HEALTHCHECK"), `CMD ["/delayer", "health"]`)
}
