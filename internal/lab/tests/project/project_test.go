// Package project_test looks at what the project is made, released and deployed with, and runs the
// programs of its pages and examples.
package project_test

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

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

func dockerfile(t *testing.T) (lines []string) {
	for line := range strings.Lines(read(t, "Dockerfile")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func finalStage(t *testing.T) []string {
	lines := dockerfile(t)
	at := slices.Index(lines, "FROM scratch")
	require.Positive(t, at)
	return lines[at:]
}
