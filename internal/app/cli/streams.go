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

// ReadAll reads standard input to its end, or until ctx ends.
func (s Streams) ReadAll(ctx context.Context) ([]byte, error) {
	type result struct {
		all []byte
		err error
	}
	done := make(chan result, 1)
	go func() { // a read cannot be cancelled; after an interrupt the process ends soon
		all, err := io.ReadAll(s.In)
		done <- result{all, err}
	}()
	select {
	case r := <-done:
		return r.all, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
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
