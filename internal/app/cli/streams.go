package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Streams are where a command reads and writes: results to Out, everything else to Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Agree asks the user at the terminal to type a text. Without a terminal it is an error that names
// the flag which agrees.
func Agree(ctx context.Context, s Streams, question, text, flag string) error {
	if !IsTerminal(s.In) {
		return fmt.Errorf("standard input is no terminal: give %s to agree", flag)
	}
	fmt.Fprintf(s.Out, "%s Type %s to agree: ", question, text)
	typed := make(chan string, 1)
	go func() { // a read of the terminal cannot be cancelled; the process ends soon
		line, _ := bufio.NewReader(s.In).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case got := <-typed:
		if got == text {
			return nil
		}
		return errors.New("not agreed: nothing was changed")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
