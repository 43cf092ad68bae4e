package delayer_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
)

// heavy begins the import paths of modules that a consumer must not inherit.
var heavy = []string{
	"github.com/docker/", "github.com/moby/", "github.com/opencontainers/", "github.com/ory/",
	"github.com/chromedp/", "github.com/jackc/", "github.com/wagslane/", "github.com/michaelklishin/",
	"github.com/prometheus/", "go.opentelemetry.io/", "github.com/ThreeDotsLabs/",
}

// servesOutboxAndMetrics reports whether the command links a module of heavy.
func servesOutboxAndMetrics(path string) bool {
	return path == "github.com/jackc/" || path == "github.com/prometheus/"
}

// TestConsumer_GoSum holds the number of modules that a consumer must trust. go mod tidy also
// counts those that the tests of imported packages import: tests that need a broker or a database
// are therefore in internal/lab/tests.
func TestConsumer_GoSum(t *testing.T) {
	const (
		ours = 10 // two lines each: amqp091-go and its goleak, yaml, testify, rapid
		// pgx adds two lines each for itself, pgpassfile, pgservicefile, puddle, x/sync and x/text,
		// and seven for the go.mod files of what their tests once required.
		withPgx = ours + 6*2 + 7
		driver  = "github.com/jackc/"
	)
	for imports, most := range map[string]int{
		"backend": ours, "migrate": ours, "once": ours, "retry": ours, "status": ours,
		"recurring": ours + 2,                             // gronx
		"outbox":    withPgx, "once/pgstore": withPgx - 2, // without rapid
	} {
		dir := consumer(t, imports)
		run(t, dir, "go", "mod", "tidy")
		sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
		require.NoError(t, err)
		assert.LessOrEqual(t, bytes.Count(sum, []byte("\n")), most, "%s: go.sum:\n%s", imports, sum)
		for _, path := range heavy {
			if path == driver && most != ours {
				continue
			}
			assert.NotContains(t, string(sum), path, imports)
		}
	}
}

// TestConsumer_Links holds what programs link.
func TestConsumer_Links(t *testing.T) {
	const yaml = "go.yaml.in/yaml"
	others := func(own string) (paths []string) {
		for _, name := range backend.Names() {
			if name != own {
				paths = append(paths, module+"/backend/"+name)
			}
		}
		return paths
	}
	links := map[string][]string{
		"backend":     heavy,
		"delayertest": append(slices.Clone(heavy), yaml, module+"/backend"),
		"recurring":   append(slices.Clone(heavy), yaml, module+"/backend"),
		"cmd/delayer": slices.DeleteFunc(slices.Clone(heavy), servesOutboxAndMetrics),
	}
	for _, name := range backend.Names() {
		links["backend/"+name] = append(others(name), yaml)
	}
	for name, never := range links {
		t.Run(name, func(t *testing.T) {
			deps := run(t, ".", "go", "list", "-deps", module+"/"+name)
			for _, path := range never {
				assert.NotContains(t, deps, path)
			}
		})
	}
}

// consumer makes the module of a program that imports one of our packages, and returns its folder.
func consumer(t *testing.T, imports string) string {
	t.Helper()
	dir, repository := t.TempDir(), run(t, ".", "go", "list", "-m", "-f", "{{.Dir}}")
	ours, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go .*$`).Find(ours)
	files := map[string]string{
		"go.mod": fmt.Sprintf("module example.com/consumer\n\n%s\n\nrequire %s v0.0.0\n\nreplace %[2]s => %q\n",
			version, module, strings.TrimSpace(repository)),
		"main.go": fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", module+"/"+imports),
	}
	sums, err := os.ReadFile("go.sum") // tidy keeps what it needs of it, and asks no server for it
	require.NoError(t, err)
	files["go.sum"] = string(sums)
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	return string(out)
}

// TestReadme_Example: the program that a reader copies is examples/first, which
// internal/lab/tests/project runs.
func TestReadme_Example(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("examples/first/main.go")
	require.NoError(t, err)
	_, program, _ := strings.Cut(string(source), "\npackage main\n")
	require.Contains(t, string(readme), "```go\npackage main\n"+program+"```\n")
}
