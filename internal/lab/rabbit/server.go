package rabbit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A server is a RabbitMQ of our own. A shell script runs it, here or in a container. The script
// reads commands from its standard input, the lifeline, and ends the server when that ends.
type server struct {
	script *exec.Cmd
	in     io.WriteCloser
	gone   chan struct{} // closed when the script has ended
	closed sync.Once
	pid    string // of the server, by the script

	plugins []string // enabled
	api     *url.URL // of management; nil without that plugin
	clock   *clock   // nil: the machine's
	env     []string // of commands; nil: this process's
	prefix  []string // of a command line that runs something where the server is
	ctl     string   // rabbitmqctl; "" if there is none
	erlCall string   // what calls the server's VM, in a shell
	data    string   // the folder of its data
	usage   func(*server) (usage, error)

	output
}

// An output is what a script has printed.
type output struct {
	mu      sync.Mutex
	partial []byte
	tail    []string
	trouble []string
	down    chan struct{} // closed when the server's process is gone
	answers chan []string // the lines for this process, in fields
}

const (
	forUs       = "@delayer " // begins a script's line for this process
	tailLines   = 30
	tailLength  = 500 // bytes of one line
	mostTrouble = 400 // lines of warnings and errors
)

func (s *server) begin(script *exec.Cmd) error {
	s.script, s.gone = script, make(chan struct{})
	s.down, s.answers = make(chan struct{}), make(chan []string, 16)
	close(s.down)
	script.Stdout, script.Stderr = &s.output, &s.output
	// An interrupt typed at the terminal ends us, and only then, in order, the broker.
	ownGroup(script)
	script.WaitDelay = time.Second // the VM's helpers hold the output open for a moment after its end
	var err error
	if s.in, err = script.StdinPipe(); err != nil {
		return err
	}
	if err := script.Start(); err != nil {
		return err
	}
	go func() {
		defer close(s.gone)
		_ = script.Wait()
		s.lost()
	}()
	return nil
}

func (s *server) run() error {
	s.mu.Lock()
	s.down = make(chan struct{})
	s.mu.Unlock()
	up, err := s.ask("run", "up")
	if err != nil {
		s.lost()
		return err
	}
	s.pid = strings.Join(up, " ")
	return nil
}

// signal sends a signal that ends the Erlang VM, and waits for that end.
func (s *server) signal(ctx context.Context, name string) error {
	ended := s.ended()
	if err := s.say("signal " + name); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rabbit: the broker does not end after SIG%s: %w", name, ctx.Err())
	}
}

func (s *server) say(command string) error {
	if _, err := io.WriteString(s.in, command+"\n"); err != nil {
		return fmt.Errorf("rabbit: %s: the broker's script is gone: %w", command, err)
	}
	return nil
}

// ask sends a command, waits for the script's line that begins with word, and returns the words
// after it.
func (s *server) ask(command, word string) ([]string, error) {
	if err := s.say(command); err != nil {
		return nil, err
	}
	return s.answer(word)
}

func (s *server) answer(word string) ([]string, error) {
	for {
		select {
		case fields := <-s.answers:
			if fields[0] == word {
				return fields[1:], nil
			}
		case <-s.gone:
			return nil, fmt.Errorf("rabbit: no %q from the broker's script; its last output:\n%s", word, s.logTail())
		}
	}
}

// close ends the lifeline and waits for the script to have cleaned up.
func (s *server) close() error {
	s.closed.Do(func() { _ = s.in.Close() })
	<-s.gone
	return nil
}

func (s *server) command(ctx context.Context, words ...string) (string, error) {
	line := slices.Concat(s.prefix, words)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("rabbit: %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return string(out), nil
}

// rabbitmqctl runs rabbitmqctl. It evaluates by erl_call, if there is one, since rabbitmqctl starts
// a virtual machine each time, which takes a second of processor time.
func (s *server) rabbitmqctl(ctx context.Context, args ...string) (string, error) {
	if !s.running() { // rabbitmqctl takes a second to find out
		return "", fmt.Errorf("rabbit: rabbitmqctl %s: the broker is down", strings.Join(args, " "))
	}
	if len(args) == 2 && args[0] == "eval" {
		expression := strings.TrimSuffix(strings.TrimSpace(args[1]), ".")
		call := fmt.Sprintf(`io:format("~p~n", [begin %s end]), delayer.`, expression)
		out, err := s.command(ctx, "sh", "-c", s.erlCall+"-e", "", "", "", call)
		if out, ok := strings.CutSuffix(strings.TrimSpace(out), "{ok, delayer}"); ok && err == nil {
			return out, nil
		}
	}
	if s.ctl == "" {
		return "", errors.New("rabbit: there is no rabbitmqctl beside the server")
	}
	return s.command(ctx, append([]string{s.ctl}, args...)...)
}

// The log's warnings and errors tell of trouble, but for two kinds: a channel error is an answer to its client, unless that has acknowledged what it may not, and
// a quorum queue that is deleted leaves segments that cannot be written any more.
var (
	serious  = regexp.MustCompile(`\[(warning|error)\]`)
	ordinary = regexp.MustCompile(`Channel error on connection|segment_writer: |` +
		`operation ((queue|exchange)\.\S+|basic\.(publish|consume|get|qos)) caused a channel exception`)
	colour = regexp.MustCompile("\x1b\\[[0-9;]*m") // of a server on a terminal
)

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, p...)
	for {
		line, rest, found := bytes.Cut(o.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		o.line(strings.TrimRight(string(line), "\r"))
		o.partial = slices.Clone(rest)
	}
}

func (o *output) line(text string) {
	if message, ours := strings.CutPrefix(text, forUs); ours {
		if strings.HasPrefix(message, "down") {
			o.markDown()
			return
		}
		select {
		case o.answers <- strings.Fields(message):
		default: // nobody asked for so many
		}
		return
	}
	text = colour.ReplaceAllString(text, "")
	text = text[:min(len(text), tailLength)]
	o.tail = last(tailLines, append(o.tail, text))
	if serious.MatchString(text) && !ordinary.MatchString(text) {
		o.trouble = last(mostTrouble, append(o.trouble, text))
	}
}

func last(n int, lines []string) []string { return lines[max(len(lines)-n, 0):] }

func (o *output) markDown() {
	select {
	case <-o.down:
	default:
		close(o.down)
	}
}

// lost notes that the script itself is gone, and with it the server.
func (o *output) lost() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.markDown()
}

func (o *output) ended() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.down
}

func (o *output) running() bool {
	select {
	case <-o.ended():
		return false
	default:
		return true
	}
}

func (o *output) logTail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.tail, "\n")
}

func (o *output) complaints() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.trouble)
}

func (s *server) hasPlugin(name string) bool { return slices.Contains(s.plugins, name) }

// erlCall is a command line of a shell that evaluates $3 in a node's VM. Two callers of one name
// cannot be connected at a time.
func erlCall(program, node string) string {
	return `printf '%s\n' "$3" | ` + program + ` -h "call$$" -sname ` + node + " -fetch_stdout "
}
