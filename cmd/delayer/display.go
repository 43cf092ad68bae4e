package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/delayer-go/delayer/bench"
)

// A display shows progress: one line that is redrawn on a terminal, one line per run elsewhere.
type display struct {
	out  io.Writer
	live bool

	mu    sync.Mutex
	drawn bool // a live line is on the screen
}

func newDisplay(out io.Writer) *display { return &display{out: out, live: isTerminal(out)} }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// logf prints a line that stays.
func (d *display) logf(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	fmt.Fprintf(d.out, format+"\n", args...)
}

// event shows how far a benchmark is.
func (d *display) event(e bench.Event) {
	step := fmt.Sprintf("[%*d/%d]", len(fmt.Sprint(e.Steps)), e.Step, e.Steps)
	name := fmt.Sprintf("%s, %s, %s", e.Scenario, e.Subject, e.QueueType)
	switch {
	case e.Done != nil:
		d.logf("%s %-*s  %s", step, nameWidth, name, outcome(*e.Done))
	case d.live: // what matters most first: the end may be cut off
		d.draw(fmt.Sprintf("%s %s left: %s, %d sent, %d arrived", step, roughly(e.Left), name, e.Published, e.Arrived))
	}
}

// outcome is a finished run in a few words.
func outcome(run bench.Run) string {
	if run.Skipped != "" {
		return "skipped: " + run.Skipped
	}
	if problem := run.Problem(); problem != "" {
		return "FAILED: " + problem
	}
	if run.Delivered < run.Published {
		return fmt.Sprintf("only %d of %d arrived", run.Delivered, run.Published)
	}
	switch {
	case len(run.Probes) > 0:
		return fmt.Sprintf("in time up to %.0f msg/s", run.MaxRate)
	case run.ServesMS > 0:
		return fmt.Sprintf("serves after %.1f s, p99 %.0f ms late", run.ServesMS/1000, run.Lateness.P99)
	case run.DrainMS > 0:
		return fmt.Sprintf("over in %.0f ms", run.DrainMS)
	case run.MemoryPerMessage > 0:
		return fmt.Sprintf("%.0f B of memory each, p99 %.0f ms late", run.MemoryPerMessage, run.Lateness.P99)
	}
	return fmt.Sprintf("p50 %.0f ms late, p99 %.0f ms", run.Lateness.P50, run.Lateness.P99)
}

func roughly(left time.Duration) string {
	if left < time.Second {
		return "a moment"
	}
	return left.Round(time.Second).String()
}

// end removes the live line.
func (d *display) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
}

// nameWidth aligns what follows a run's name.
const nameWidth = len("accuracy, binaryladder source, classic")

// lineWidth keeps the live line from wrapping, after which it could not be redrawn.
const lineWidth = 79

// eraseRest is the control sequence that empties the line from the cursor on.
const eraseRest = "\x1b[K"

func (d *display) draw(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if utf8.RuneCountInString(line) > lineWidth {
		line = string([]rune(line)[:lineWidth-1]) + "…"
	}
	fmt.Fprint(d.out, "\r"+line+eraseRest)
	d.drawn = true
}

// clear is called with the lock held.
func (d *display) clear() {
	if d.drawn {
		fmt.Fprint(d.out, "\r"+eraseRest)
		d.drawn = false
	}
}
