//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize is 0, 0 where it is not known.
func terminalSize(f *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}
