package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/unroutable"
)

// unroutableExportCmd is `delayer unroutable export`.
type unroutableExportCmd struct {
	boxFlags
	Out string `placeholder:"FILE" help:"Write here, to a file that does not exist yet, instead of the standard output."`
}

// Run writes one message a line.
func (c *unroutableExportCmd) Run(ctx context.Context, s streams) error {
	return boxed(ctx, "export", &c.boxFlags, func(box *unroutable.Box) error { return c.export(ctx, box, s) })
}

func (c *unroutableExportCmd) export(ctx context.Context, box *unroutable.Box, s streams) (err error) {
	out := s.out
	if c.Out != "" {
		file, err := os.OpenFile(c.Out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // bodies may be confidential
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		out = file
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	show := cli.NewDisplay(s.err)
	defer show.End()
	n, err := c.write(ctx, box, out, show)
	if err != nil {
		return err
	}
	show.End()
	_, err = fmt.Fprintf(s.err, "exported %s of %s; they are still there\n", messages(n), box.Queue())
	return err
}

func (c *unroutableExportCmd) write(ctx context.Context, box *unroutable.Box, out io.Writer, show *cli.Display) (n int, err error) {
	buffered := bufio.NewWriter(out)
	w := walk{box: box, flags: &c.boxFlags, show: show, after: buffered.Flush}
	w.visit = func(m *unroutable.Message) error {
		line, err := m.Export()
		if err != nil {
			return err
		}
		n++
		m.Forget()
		_, err = buffered.Write(append(line, '\n'))
		return err
	}
	_, err = w.run(ctx)
	return n, err
}
