package project_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestBackend_AFolderAndAFewLines adds a fifth backend to the sources, without writing there: its
// folder, and the lines below. It is then in every list that the commands and tests have.
func TestBackend_AFolderAndAFewLines(t *testing.T) {
	t.Parallel()
	const imports = `"github.com/delayer-go/delayer/backend/fixedtiers"`
	overlay := addition{T: t, folder: t.TempDir()}
	overlay.add("backend/fifth/fifth.go", read(t, "internal/lab/tests/project/testdata/fifth.go"))
	overlay.insert("backend/open.go",
		imports, `"github.com/delayer-go/delayer/backend/fifth"`,
		"var table = []row{", `of(fifth.Name, fifth.Open, fifth.Topology, fifth.Limits,
			func(c Config) fifth.Config { return c.Fifth }),`)
	overlay.insert("backend/config.go",
		imports, `"github.com/delayer-go/delayer/backend/fifth"`,
		"Controller controller.Config `yaml:\"controller\"`", "Fifth fifth.Config `yaml:\"fifth\"`",
		"Controller: controller.Default(),", "Fifth: fifth.Default(),")

	for _, c := range []struct {
		shows string
		args  []string
	}{
		{"queue     delayer.fifth  ", []string{"run", "./cmd/delayer", "topology", "print", "--backend", "fifth"}},
		{"fifth", []string{"run", "./cmd/delayer", "topology", "print", "--help"}},
		{"fifth", []string{"run", "./cmd/delayer-bench", "--help"}},
		{"--- PASS: TestConsumer_Links/backend/fifth", []string{"test", "-vet=off", "-v", "-run", "TestImports|TestConsumer_Links", "."}},
		{"--- PASS: TestConformance/fifth/classic/" + someCase, []string{
			"test", "-vet=off", "-v", "-run", "TestConformance/fifth/.*/" + someCase, "./internal/lab/tests/conformance",
		}},
	} {
		require.Contains(t, overlay.goes(c.args...), c.shows, "go %s", strings.Join(c.args, " "))
	}
}

// someCase is one of the conformance suite that a backend fails whose messages do not arrive.
const someCase = "never-early"

type addition struct {
	*testing.T
	folder  string
	replace map[string]string
}

func (a *addition) add(path, text string) {
	a.Helper()
	absolute, err := filepath.Abs(root + path)
	require.NoError(a, err)
	file := filepath.Join(a.folder, strings.ReplaceAll(path, "/", "_"))
	require.NoError(a, os.WriteFile(file, []byte(text), 0o600))
	if a.replace == nil {
		a.replace = map[string]string{}
	}
	a.replace[absolute] = file
}

// insert puts a line behind each of some that are in a file.
func (a *addition) insert(path string, behind ...string) {
	a.Helper()
	text := read(a.T, path)
	for i := 0; i < len(behind); i += 2 {
		require.Equal(a, 1, strings.Count(text, behind[i]), behind[i])
		text = strings.Replace(text, behind[i], behind[i]+"\n"+behind[i+1], 1)
	}
	a.add(path, text)
}

// goes runs the go command with the addition, and returns what it prints.
func (a *addition) goes(args ...string) string {
	a.Helper()
	description, err := json.Marshal(map[string]any{"Replace": a.replace})
	require.NoError(a, err)
	file := filepath.Join(a.folder, "overlay.json")
	require.NoError(a, os.WriteFile(file, description, 0o600))
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+file, "AMQP_URL="+rabbittest.Broker(a).URL(), "DELAYER_BROKER=given", "DELAYER_TEST_SUMMARY=")
	out, err := cmd.CombinedOutput()
	require.NoError(a, err, "%s", out)
	return string(out)
}
