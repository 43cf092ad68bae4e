package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/statuscmd"
	"github.com/delayer-go/delayer/internal/lab/docs"
)

// TestDocs_Status: docs/operating.md shows the fields that `delayer status --output json` has, and
// no other.
func TestDocs_Status(t *testing.T) {
	for _, b := range docs.Blocks(docs.Pages(t, "../..")["docs/operating.md"]) {
		if b.Lang == "json" {
			var shown statuscmd.Report
			decoder := json.NewDecoder(strings.NewReader(b.Text))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(&shown))
			again, err := json.Marshal(shown)
			require.NoError(t, err)
			require.JSONEq(t, b.Text, string(again))
			return
		}
	}
	t.Fatal("docs/operating.md shows no JSON")
}

// TestDocs_Commands: each `delayer …` in a code block of the documentation is one that the command
// takes.
func TestDocs_Commands(t *testing.T) {
	seen := 0
	for path, text := range docs.Pages(t, "../..") {
		for _, args := range docs.Commands(text, "delayer") {
			seen++
			if args[0] == "help" {
				args = append(args[1:], "--help")
			}
			exited := false
			parser, err := program().Parser(io.Discard, io.Discard, func(int) { exited = true })
			require.NoError(t, err)
			_, err = parser.Parse(args)
			assert.True(t, err == nil || exited, "%s: delayer %q: %v", path, args, err)
		}
	}
	require.Greater(t, seen, 40)
}
