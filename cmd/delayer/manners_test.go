package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withoutTable are the commands that print no table, and what they print.
var withoutTable = map[string]string{
	"serve":            "its log",
	"topology print":   "has definitions, which are JSON",
	"topology remove":  "what it did",
	"messages export":  "is JSON",
	"messages show":    "is JSON",
	"outbox run":       "its log",
	"outbox migrate":   "a sentence",
	"migrate assess":   "a checklist",
	"migrate switch":   "what it did",
	"migrate evacuate": "what it did",
	"migrate retire":   "what it did",
	"migrate rollback": "what it did",
	"health":           "the answer",
	"help":             "help",
}

// TestEveryCommand: what a user finds in one command he finds in all of them.
func TestEveryCommand(t *testing.T) {
	parser, err := program().Parser(&bytes.Buffer{}, &bytes.Buffer{}, func(int) {})
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, leaf := range parser.Model.Leaves(true) {
		path := strings.TrimPrefix(leaf.FullPath(), "delayer ")
		seen[path] = true
		flags := map[string]*kong.Flag{}
		for _, f := range leaf.Flags {
			flags[f.Name] = f
		}
		if withoutTable[path] == "" {
			require.Contains(t, flags, "output", "%s prints a table: it needs --output json, or a place in withoutTable", path)
			assert.Contains(t, flags["output"].EnumSlice(), "json", path)
			assert.NotEqual(t, "json", flags["output"].Default, path)
		}
		if flags["config"] != nil && path != "topology print" {
			assert.Contains(t, flags, "url", "%s needs a broker", path)
		}
		if url := flags["url"]; url != nil {
			assert.Contains(t, url.Help, "DELAYER_URL", path)
		}
		_, help, _ := command(t.Context(), t, append([]string{"help"}, strings.Fields(path)...)...)
		assert.Contains(t, help, "\nExit status: 0 done, 1 failed, 2 used wrongly, 130 interrupted.\n", path)
	}
	for path := range withoutTable {
		assert.Contains(t, seen, path, "there is no such command")
	}
}

// TestSend_URL: the flag overrides the variable, and that the file.
func TestSend_URL(t *testing.T) {
	config := configFile(t, "url: amqp://guest:hunter2@127.0.0.1:1/\n")
	args := []string{"send", "--config", config, "--key", "k", "--delay", "1s", "--body", "x"}
	for _, c := range []struct{ variable, flag, want string }{
		{"", "", "127.0.0.1:1"},
		{"amqp://guest:hunter2@127.0.0.1:2/", "", "127.0.0.1:2"},
		{"amqp://guest:hunter2@127.0.0.1:2/", "amqp://guest:hunter2@127.0.0.1:3/", "127.0.0.1:3"},
	} {
		t.Setenv("DELAYER_URL", c.variable)
		status, _, stderr := command(t.Context(), t, append(args, "--url="+c.flag)...)
		require.Equal(t, exitFailed, status)
		require.Contains(t, stderr, c.want)
		require.NotContains(t, stderr, "hunter2")
	}
}
