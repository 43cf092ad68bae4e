package node_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSuspend_OneFails: if a node cannot be suspended, the others are resumed, and the error names it.
func TestSuspend_OneFails(t *testing.T) {
	calls := t.TempDir()
	const a, b = "cmFiYml0QGE=", "cmFiYml0QGI=" // rabbit@a, rabbit@b
	c := script(t, `printf '%s' "$3" > `+calls+`/$$
case "$3" in *'"`+b+`,'*) echo cannot >&2; exit 1;; esac
echo @@delayer-begin@@
case "$3" in *'"`+a+`,'*) ;; *) echo node `+a+` up; echo node `+b+` up;; esac
echo @@delayer-end@@
`)
	_, err := c.Suspend(t.Context(), time.Minute)
	require.ErrorContains(t, err, "node rabbit@b")
	assert.Contains(t, programs(t, calls, a), "% Resumes the plugin's process")
}

// programs are the programs that ran on a node.
func programs(t *testing.T, calls, node string) (all string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(calls, "*"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, after, _ := strings.Cut(string(text), `<<"`)
		words := strings.Split(after, ",")
		program, _ := base64.StdEncoding.DecodeString(words[2])
		if words[0] == node {
			all += string(program)
		}
	}
	return all
}
