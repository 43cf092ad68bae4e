package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/docs"
)

// substitution is a list that the shell makes.
var substitution = regexp.MustCompile(`"\$\([^"]*"`)

// TestDocs_Commands: each `delayer-bench …` in a code block of the documentation is one that the
// command takes.
func TestDocs_Commands(t *testing.T) {
	seen := 0
	for path, text := range docs.Pages(t, "../..") {
		text = strings.ReplaceAll(text, "$n", "1") // of a loop
		text = substitution.ReplaceAllString(text, "1ms,2ms")
		for _, args := range docs.Commands(text, "delayer-bench") {
			seen++
			parser, err := program().Parser(io.Discard, io.Discard, func(int) {})
			require.NoError(t, err)
			_, err = parser.Parse(args)
			assert.NoError(t, err, "%s: delayer-bench %q", path, args)
		}
	}
	require.Greater(t, seen, 5)
}
