package cli

import (
	"io"
	"os"
	"strings"
)

// A Screen shows a page again and again, each time in the place of the last.
type Screen struct {
	out   io.Writer
	live  bool
	drawn bool
}

// NewScreen shows pages on out.
func NewScreen(out io.Writer) *Screen {
	return &Screen{out: out, live: IsTerminal(out) && os.Getenv("TERM") != "dumb"}
}

// Live reports whether the output is a terminal.
func (s *Screen) Live() bool { return s.live }

// Size is the width and height of the terminal in characters; 80 and 24 where that is not known.
func (s *Screen) Size() (width, height int) {
	if f, ok := s.out.(*os.File); ok && s.live {
		if width, height = terminalSize(f); width > 0 && height > 0 {
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
	for _, line := range cut(strings.Split(strings.TrimSuffix(page, "\n"), "\n"), width, height-1) {
		b.WriteString(line + eraseRest + "\n")
	}
	b.WriteString(eraseBelow)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// cut shortens lines to a width, and a page to a height.
func cut(lines []string, width, height int) []string {
	if len(lines) > height && height > 0 {
		lines = append(lines[:height-1:height-1], "…")
	}
	for i, line := range lines {
		if r := []rune(line); len(r) > width {
			lines[i] = string(r[:width-1]) + "…"
		}
	}
	return lines
}
