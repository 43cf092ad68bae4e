package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asCommand makes the test binary the command.
const asCommand = "DELAYER_TEST_AS_COMMAND"

// withoutTable are the commands that print no table, and what they print.
var withoutTable = map[string]string{
	"send":              "a sentence",
	"controller":        "its log",
	"topology print":    "has definitions, which are JSON",
	"topology remove":   "what it did",
	"unroutable export": "is JSON",
	"parked export":     "is JSON",
	"outbox run":        "its log",
	"outbox migrate":    "a sentence",
	"migrate prepare":   "what it did",
	"migrate switch":    "what it did",
	"migrate bridge":    "its log",
	"migrate retire":    "what it did",
	"migrate rollback":  "what it did",
	"health":            "the answer",
	"help":              "help",
	"completion":        "a script",
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

func TestHelp_Environment(t *testing.T) {
	_, help, _ := command(t.Context(), t, "help")
	for _, name := range []string{"DELAYER_URL ", "DELAYER_POSTGRES ", "DELAYER_BACKEND"} {
		assert.Contains(t, help, name)
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

// TestCompletion: what the scripts are told.
func TestCompletion(t *testing.T) {
	for words, want := range map[string][]string{
		"s":                               {"send", "status"},
		"unroutable ":                     {"list", "retry", "export", "purge"},
		"help unroutable p":               {"purge"},
		"send --c":                        {"--config", "--content-type"},
		"unroutable --config x list --ou": {"--output"},
		"send --config ":                  {":files"},
		"unroutable export --out=":        {":files"},
		"migrate status --output ":        {"text", "json"},
		"migrate status --output = j":     {"json"},
		"migrate status --output=j":       {"--output=json"},
		"migrate status --pending --no":   nil,
		"migrate switch --yes --mode ":    {"in-place", "bridge"},
		"send --key k --delay ":           nil,
		"completion ":                     {"bash", "zsh", "fish"},
		"nonsense ":                       nil,
		"__c":                             nil,
	} {
		status, stdout, stderr := command(t.Context(), t, append([]string{"__complete"}, strings.Split(words, " ")...)...)
		require.Equal(t, exitOK, status, stderr)
		var got []string
		for line := range strings.Lines(stdout) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, word)
		}
		require.Equal(t, want, got, words)
	}
	_, stdout, _ := command(t.Context(), t, "__complete", "unroutable", "r")
	require.Equal(t, "retry\tSend them to their destinations, if those exist again.\n", stdout, "zsh and fish show the help")
}

// TestCompletion_Bash presses Tab: it runs the script, for which this test is the command.
func TestCompletion_Bash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "delayer.yaml"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "two words"), nil, 0o600))
	test, err := os.Executable()
	require.NoError(t, err)
	_, script, _ := command(t.Context(), t, "completion", "bash")
	const tab = `
delayer() { "$TEST" "$@"; }
COMP_WORDS=(delayer "$@")
COMP_CWORD=$#
_delayer delayer "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
for word in "${COMPREPLY[@]}"; do echo "$word"; done`
	for words, want := range map[string]string{
		"unroutable ":                 "list\nretry\nexport\npurge\n",
		"send --config ":              "delayer.yaml\ntwo words\n",
		"send --config = two":         "two words\n",
		"migrate status --output = j": "json\n",
		"send --key ":                 "",
	} {
		cmd := exec.CommandContext(t.Context(), bash, append([]string{"--norc", "-c", script + tab, "bash"}, strings.Split(words, " ")...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), asCommand+"=1", "TEST="+test)
		out, err := cmd.Output()
		require.NoError(t, err, words)
		require.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(string(out), "\n"), words)
	}
}

// TestCompletion_OtherShells: where they are, they can read their scripts.
func TestCompletion_OtherShells(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		_, script, _ := command(t.Context(), t, "completion", shell)
		require.Contains(t, script, "__complete")
		require.NotContains(t, script, "PROGRAM")
		if path, err := exec.LookPath(shell); err == nil {
			cmd := exec.CommandContext(t.Context(), path, "-n")
			cmd.Stdin = strings.NewReader(script)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
		}
	}
}
