package rabbit

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	forUs       = "@delayer " // how a script's line to this process begins
	tailLines   = 30
	tailLength  = 500 // bytes of one line
	mostTrouble = 400 // lines of warnings and errors
)

// A lifeline is the conversation with the script that runs a server, over the script's standard
// input and output. The script ends its server when the input ends, so it need not be told.
type lifeline struct {
	in io.WriteCloser

	mu      sync.Mutex
	partial []byte
	tail    []string
	trouble []string
	down    chan struct{} // closed when the server process is gone
	answers chan []string // the script's other lines, in fields
}

// colour is how a server on a terminal colours its output. What it said last goes into errors, and
// with them into reports.
var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Of the server's warnings and errors two kinds are nobody's trouble: a channel error is an answer
// to its client, unless that has acknowledged what it may not, and a quorum queue that is deleted
// leaves segments that cannot be written any more.
var (
	serious  = regexp.MustCompile(`\[(warning|error)\]`)
	ordinary = regexp.MustCompile(`Channel error on connection|segment_writer: |` +
		`operation ((queue|exchange)\.\S+|basic\.(publish|consume|get|qos)) caused a channel exception`)
)

func newLifeline() *lifeline {
	down := make(chan struct{})
	close(down)
	return &lifeline{down: down, answers: make(chan []string, 16)}
}

// run starts the server; its end closes the channel that ended returns from then on.
func (l *lifeline) run() error {
	l.mu.Lock()
	l.down = make(chan struct{})
	l.mu.Unlock()
	if err := l.say("run"); err != nil {
		l.lost()
		return err
	}
	return nil
}

func (l *lifeline) say(command string) error {
	if _, err := io.WriteString(l.in, command+"\n"); err != nil {
		return fmt.Errorf("rabbit: %s: the broker's script is gone: %w", command, err)
	}
	return nil
}

func (l *lifeline) ended() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// lost notes that the script itself is gone, and with it the server.
func (l *lifeline) lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markDown()
}

func (l *lifeline) markDown() {
	select {
	case <-l.down:
	default:
		close(l.down)
	}
}

// Write takes the script's output.
func (l *lifeline) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.line(strings.TrimRight(string(line), "\r"))
		l.partial = slices.Clone(rest)
	}
}

func (l *lifeline) line(text string) {
	message, ok := strings.CutPrefix(text, forUs)
	switch {
	case !ok:
		l.remember(text)
	case strings.HasPrefix(message, "down"):
		l.markDown()
	default:
		select {
		case l.answers <- strings.Fields(message):
		default: // nobody asked for so many
		}
	}
}

func (l *lifeline) remember(text string) {
	text = colour.ReplaceAllString(text, "")
	text = text[:min(len(text), tailLength)]
	l.tail = last(tailLines, append(l.tail, text))
	if serious.MatchString(text) && !ordinary.MatchString(text) {
		l.trouble = last(mostTrouble, append(l.trouble, text))
	}
}

func last(n int, lines []string) []string { return lines[max(len(lines)-n, 0):] }

func (l *lifeline) logTail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.tail, "\n")
}

func (l *lifeline) complaints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.trouble)
}

// answer waits for the script's line that begins with word, and returns the words after it.
func (l *lifeline) answer(word string, gone <-chan struct{}) ([]string, error) {
	for {
		select {
		case fields := <-l.answers:
			if fields[0] == word {
				return fields[1:], nil
			}
		case <-gone:
			return nil, fmt.Errorf("rabbit: no %q from the broker's script; its last output:\n%s", word, l.logTail())
		}
	}
}
