package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// A Display shows progress. On a terminal it has a live line that is redrawn.
type Display struct {
	out  io.Writer
	live bool

	mu    sync.Mutex
	drawn bool // a live line is on the screen
}

// NewDisplay shows progress on out.
func NewDisplay(out io.Writer) *Display {
	return &Display{out: out, live: isLive(out)}
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func isLive(out io.Writer) bool { return IsTerminal(out) && os.Getenv("TERM") != "dumb" }

// Live reports whether the output is a terminal.
func (d *Display) Live() bool { return d.live }

// Logf prints a permanent line.
func (d *Display) Logf(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	fmt.Fprintf(d.out, format+"\n", args...)
}

// End removes the live line.
func (d *Display) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
}

// lineWidth keeps the live line from wrapping, after which it could not be redrawn.
const lineWidth = 79

// eraseRest is the control sequence that empties the line from the cursor on.
const eraseRest = "\x1b[K"

// Draw replaces the live line. It is for terminals only.
func (d *Display) Draw(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprint(d.out, "\r"+first(line, lineWidth)+eraseRest)
	d.drawn = true
}

// clear is called with the lock held.
func (d *Display) clear() {
	if d.drawn {
		fmt.Fprint(d.out, "\r"+eraseRest)
		d.drawn = false
	}
}

// A Screen shows a page again and again, each time in the place of the last.
type Screen struct {
	out   io.Writer
	live  bool
	drawn bool
}

// NewScreen shows pages on out.
func NewScreen(out io.Writer) *Screen {
	return &Screen{out: out, live: isLive(out)}
}

// Live reports whether the output is a terminal.
func (s *Screen) Live() bool { return s.live }

// Size is the width and height of the terminal in characters; 80 and 24 where that is not known.
func (s *Screen) Size() (width, height int) {
	if f, ok := s.out.(*os.File); ok && s.live {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}

const (
	clearAll   = "\x1b[2J"
	cursorHome = "\x1b[H"
	eraseBelow = "\x1b[J"
)

// Draw replaces the page. What does not fit on the terminal is cut off.
func (s *Screen) Draw(page string) error {
	var b strings.Builder
	if !s.drawn {
		b.WriteString(clearAll)
		s.drawn = true
	}
	b.WriteString(cursorHome)
	width, height := s.Size()
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	if height--; len(lines) > height && height > 0 {
		lines = append(lines[:height-1], "…")
	}
	for _, line := range lines {
		b.WriteString(first(line, width) + eraseRest + "\n")
	}
	b.WriteString(eraseBelow)
	_, err := io.WriteString(s.out, b.String())
	return err
}
