package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// asCommand makes the test binary the command.
const asCommand = "DELAYER_TEST_AS_COMMAND"

// withoutTable are the commands that print no table, and what they print.
var withoutTable = map[string]string{
	"serve":            "its log",
	"topology print":   "has definitions, which are JSON",
	"topology remove":  "what it did",
	"messages export":  "is JSON",
	"outbox run":       "its log",
	"outbox migrate":   "a sentence",
	"migrate assess":   "a checklist",
	"migrate switch":   "what it did",
	"migrate evacuate": "what it did",
	"migrate retire":   "what it did",
	"migrate rollback": "what it did",
	"health":           "the answer",
	"help":             "help",
	"completion":       "a script",
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

// TestCompletion: what the scripts are told.
func TestCompletion(t *testing.T) {
	for words, want := range map[string][]string{
		"s":                             {"send", "status", "serve"},
		"c":                             {"cancel", "completion"},
		"messages ":                     {"list", "show", "retry", "export", "purge"},
		"help messages p":               {"purge"},
		"send --c":                      {"--config", "--content-type"},
		"messages --config x list --ou": {"--output"},
		"send --config ":                {":files"},
		"messages export --out=":        {":files"},
		"migrate status --output ":      {"text", "json"},
		"migrate status --output = j":   {"json"},
		"migrate status --output=j":     {"--output=json"},
		"messages list --no":            nil,
		"migrate switch --yes --mode ":  {"in-place", "serve"},
		"send --key k --delay ":         nil,
		"completion ":                   {"bash", "zsh", "fish"},
		"nonsense ":                     nil,
		"__c":                           nil,
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
	_, stdout, _ := command(t.Context(), t, "__complete", "messages", "r")
	require.Equal(t, "retry\tSend them: unroutable ones to their destinations, parked ones to their queue.\n", stdout, "zsh and fish show the help")
}

// A shell in which a test presses Tab: the test is the command delayer there.
type shell struct {
	*testing.T
	path, dir string // dir has files to complete
	env       []string
}

// newShell skips the test where there is no such shell.
func newShell(t *testing.T, name string) shell {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		rabbittest.Skipf(t, "there is no %s", name)
	}
	test, err := os.Executable()
	require.NoError(t, err)
	_, script, _ := command(t.Context(), t, "completion", name)
	s := shell{T: t, path: path, dir: t.TempDir()}
	s.env = append(os.Environ(), asCommand+"=1", "TEST="+test, "SCRIPT="+write(t, t.TempDir(), name, script))
	for _, file := range []string{"delayer.yaml", "two words"} {
		write(t, s.dir, file, "")
	}
	return s
}

func write(t *testing.T, dir, file, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, file)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// run returns what the shell prints. One that waits for more input is ended.
func (s shell) run(args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.path, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.Output()
	require.NoError(s, err, args)
	return string(out)
}

func TestCompletion_Bash(t *testing.T) {
	bash := newShell(t, "bash")
	const tab = `
source "$SCRIPT"
delayer() { "$TEST" "$@"; }
COMP_WORDS=(delayer "$@")
COMP_CWORD=$#
_delayer delayer "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
for word in "${COMPREPLY[@]}"; do echo "$word"; done`
	for words, want := range map[string]string{
		"messages ":                   "list\nshow\nretry\nexport\npurge\n",
		"send --config ":              "delayer.yaml\ntwo words\n",
		"send --config = two":         "two words\n",
		"migrate status --output = j": "json\n",
		"send --key ":                 "",
	} {
		got := bash.run(append([]string{"--norc", "-c", tab, "bash"}, strings.Split(words, " ")...)...)
		require.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(got, "\n"), words)
	}
}

func TestCompletion_Fish(t *testing.T) {
	fish := newShell(t, "fish")
	const tab = `
function delayer; $TEST $argv; end
source "$SCRIPT"
for line in $argv; complete -C "delayer $line"; echo end; end`
	lines := []struct{ line, want string }{
		{"messages r", "retry\tSend them: unroutable ones to their destinations, parked ones to their queue.\n"},
		{"send --config ", "delayer.yaml\ntwo words\n"},
		{"send --config=del", "--config=delayer.yaml\n"},
		{`send --config two\ w`, "two words\n"},
		{"migrate status --output=j", "--output=json\n"},
		{"send --key ", ""},
	}
	args := []string{"--no-config", "-c", tab}
	for _, l := range lines {
		args = append(args, l.line)
	}
	got := strings.Split(fish.run(args...), "end\n")
	for i, l := range lines {
		require.Equal(t, l.want, got[i], l.line)
	}
}

// TestCompletion_Zsh types in a terminal: zsh completes nowhere else. The line is read after Tab.
func TestCompletion_Zsh(t *testing.T) {
	zsh := newShell(t, "zsh")
	rc := write(t, t.TempDir(), ".zshrc", `
PS1=ready
autoload -U compinit && compinit -u -D
delayer() { "$TEST" "$@" }
source "$SCRIPT"
show() { print -r -- "$BUFFER" >>lines; BUFFER=; }
zle -N show && bindkey "^T" show
`)
	zsh.env = append(zsh.env, "ZDOTDIR="+filepath.Dir(rc))
	const terminal = `
zmodload zsh/zpty
zpty terminal "TERM=dumb $0 -d -i"
zpty -r terminal seen '*ready*'
for line in "$@"; do zpty -w -n terminal "delayer $line"$'\t\x14'; done
zpty -w terminal exit
while zpty -r terminal seen; do :; done
cat lines`
	lines := []struct{ line, want string }{
		{"mes", "messages "},
		{"messages r", "messages retry "},
		{"send --config two", `send --config two\ words `},
		{"send --config=del", "send --config=delayer.yaml "},
		{"migrate status --output j", "migrate status --output json "},
		{"help messages p", "help messages purge "},
	}
	args, want := []string{"-f", "-c", terminal, zsh.path}, ""
	for _, l := range lines {
		args, want = append(args, l.line), want+"delayer "+l.want+"\n"
	}
	require.Equal(t, want, zsh.run(args...))
}
