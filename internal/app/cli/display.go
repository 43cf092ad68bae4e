package cli

import (
	"fmt"
	"io"
	"os"
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
	return &Display{out: out, live: IsTerminal(out) && os.Getenv("TERM") != "dumb"}
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

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

// lineWidth fits a terminal of 80 columns. A live line that wraps could not be redrawn.
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
