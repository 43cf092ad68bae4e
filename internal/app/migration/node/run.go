package node

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// graceFor is how long rabbitmqctl may take beside the program that it runs.
	graceFor = 30 * time.Second
	// mostOutput bounds what is read of one call. The largest message of RabbitMQ has 512 MiB, and
	// base64 makes 4 bytes of 3.
	mostOutput = 1 << 30
	// mostStderr bounds what is kept of the standard error.
	mostStderr = 8 << 10
	// wait bounds how long the output may go on after the command has ended. A body of megabytes
	// takes some seconds to be read on a busy machine. A child that holds the output is ended with
	// the command, where the system has process groups.
	wait = 20 * time.Second
)

// run runs the command with args and reads what it prints between the markers.
func (c *Control) run(ctx context.Context, timeout time.Duration, args []string, line func(fields)) error {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(bounded, c.command[0], append(c.command[1:len(c.command):len(c.command)], args...)...)
	cmd.WaitDelay = wait
	own(cmd)
	said := &tail{}
	cmd.Stderr = said
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	read := make(chan error, 1)
	var before tail // what came instead of a result
	go func() {
		read <- before.read(reader, line)
		_, _ = io.Copy(io.Discard, reader)
	}()
	failed := cmd.Run()
	_ = writer.Close()
	err := <-read
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", c.name(), context.Cause(ctx))
	case bounded.Err() != nil:
		return fmt.Errorf("%s: no answer within %v%s (is the node overloaded, or does the command wait for input?)", c.name(), timeout, said)
	case failed != nil:
		return c.explain(failed, cmd.Process != nil, said, &before)
	case err != nil:
		return fmt.Errorf("%s: %w%s", c.name(), err, said)
	}
	return nil
}

// name is the command without its arguments: one of them may be a password.
func (c *Control) name() string {
	if len(c.command) > 1 {
		return c.command[0] + " …"
	}
	return c.command[0]
}

func (c *Control) explain(err error, started bool, stderr, stdout *tail) error {
	if !started {
		return fmt.Errorf("%s: %w (give the command that runs rabbitmqctl on a node, such as 'docker exec rabbit rabbitmqctl')", c.name(), err)
	}
	return fmt.Errorf("%s: %w%s%s (is the node started, and does the command run as the user that has its Erlang cookie?)",
		c.name(), err, stderr, stdout)
}

// read calls line with each line between the markers. The tail keeps what comes before them, such
// as warnings, until there is a result.
func (t *tail) read(from io.Reader, line func(fields)) error {
	in := bufio.NewReaderSize(io.LimitReader(from, mostOutput), 64<<10)
	var failed error
	began := false
	for {
		text, err := in.ReadString('\n')
		text = strings.TrimRight(text, "\r\n")
		switch {
		case !began && strings.HasSuffix(text, begins): // a warning may lack its line break
			began, t.kept = true, nil
		case !began:
			_, _ = t.Write([]byte(text + "\n"))
		case text == ends:
			return failed
		case failed == nil:
			failed = take(text, line)
		}
		if err != nil {
			return fmt.Errorf("its output ends without a result%s", t)
		}
	}
}

func take(text string, line func(fields)) (err error) {
	f := fields{strings.Split(text, " "), &err}
	if f.words[0] == "failed" {
		return explainFailed(f.text(1))
	}
	line(f)
	return err
}

// failures are what is in the reason of a program that failed, and what it means.
var failures = []struct {
	says string
	err  error
}{
	{"not connected", errNotConnected},
	{"nodedown", errNotConnected},
	{"no_plugin", ErrNoPlugin},
	{"{badrpc,timeout}", errors.New("the node did not answer in time: is it overloaded?")},
	{"not_locked", errors.New("the node does not see this tool's lock (is the command for the broker in url? or was the connection lost?)")},
	{"{'EXIT',{khepri,", errors.New("this RabbitMQ keeps its exchanges in a Khepri that is not known here; known is that of 4.0 to 4.2 (enable no Khepri before 4.0)")},
	{"unknown exchange type 'x-delayed-message'", errors.New("this broker has no exchange type x-delayed-message any more (enable rabbitmq_delayed_message_exchange first; or stay: nothing was changed)")},
	{"bindings_change", errors.New("its bindings change all the time (try again when fewer applications bind their queues)")},
	{"other_type", errors.New("someone has declared it with another type")},
	{"no_exchange", errors.New("it does not exist there")},
}

var errNotConnected = fmt.Errorf("the node is not connected (%w: start it)", ErrUnreached)

func explainFailed(reason string) error {
	for _, f := range failures {
		if strings.Contains(reason, f.says) {
			return f.err
		}
	}
	return fmt.Errorf("the program failed on the node: %.500s", reason)
}

// ErrNoPlugin means that a node has no process or no table of the plugin.
var ErrNoPlugin = errors.New("the node does not run the x-delayed-message plugin (rabbitmq-plugins enable rabbitmq_delayed_message_exchange; a disabled plugin has no messages)")

type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - mostStderr; over > 0 {
		t.kept = bytes.Clone(t.kept[over:])
	}
	return len(p), nil
}

// String returns the last lines, to be put behind an error.
func (t *tail) String() string {
	lines := strings.FieldsFunc(string(t.kept), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines[max(0, len(lines)-8):], "; ")
}

// fields are the words of a line that a program printed. The first says what the line is; a wrong
// one makes err.
type fields struct {
	words []string
	err   *error // the first error of the output
}

func (f fields) word(i int) string {
	if i >= len(f.words) {
		f.fail(fmt.Errorf("line %.60q has no word %d", strings.Join(f.words, " "), i))
		return ""
	}
	return f.words[i]
}

func (f fields) bytes(i int) []byte {
	data, err := base64.StdEncoding.DecodeString(f.word(i))
	f.fail(err)
	return data
}

func (f fields) text(i int) string { return string(f.bytes(i)) }

func (f fields) number(i int) int64 {
	n, err := strconv.ParseInt(f.word(i), 10, 64)
	f.fail(err)
	return n
}

func (f fields) fail(err error) {
	if err != nil && *f.err == nil {
		*f.err = fmt.Errorf("unexpected output: %w", err)
	}
}

//go:embed programs/*.erl
var programs embed.FS

// launcher is what rabbitmqctl evaluates. It runs a program on a node of the cluster and prints
// what that prints between two markers, which no warning looks like. It has no single quote,
// because some wrappers around rabbitmqctl put its arguments between such. %s is base64 words and
// commas.
//
// A program is compiled on the node, as RabbitMQ compiles its feature flags: interpreted, the loops
// over rows took most of the broker's processor time. Its module stays, some kilobytes until the
// node's next start.
//
// What a program prints on another node goes through a process of the node that rabbitmqctl asks:
// between the nodes and rabbitmqctl, only that connection is certain to be possible.
var launcher = fmt.Sprintf(strings.Join(strings.Fields(launcherText), " "), "%s", begins, ends)

//go:embed launcher.erl
var launcherText string

// The markers of a program's output.
const (
	begins = "@@delayer-begin@@"
	ends   = "@@delayer-end@@"
)

// expression is the argument of rabbitmqctl eval that runs a program on a node, "" for the node
// that rabbitmqctl asks.
func expression(node, program string, timeout time.Duration, in [][]byte) string {
	words := []string{word([]byte(node)), word(fmt.Append(nil, timeout.Milliseconds())), word([]byte(program))}
	for _, data := range in {
		words = append(words, word(data))
	}
	return fmt.Sprintf(launcher, strings.Join(words, ","))
}

func word(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// eval runs a program with its input on a node, and calls line with each line that it prints.
func (c *Control) eval(ctx context.Context, timeout time.Duration, node, name string, in [][]byte, line func(fields)) error {
	program, err := programs.ReadFile("programs/" + name)
	if err != nil {
		return err
	}
	text := expression(node, string(program), timeout, in)
	if filepath.Base(c.command[0]) == "ssh" {
		text = "'" + text + "'" // for the shell at the other end
	}
	err = c.run(ctx, timeout+graceFor, []string{"-q", "eval", text}, line)
	if err != nil && node != "" {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return err
}
