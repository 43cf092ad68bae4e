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
	queueFlags
	Out string `placeholder:"FILE" help:"Write to this new file instead of standard output."`
}

// Run writes one message a line.
func (c *unroutableExportCmd) Run(ctx context.Context, s streams) error {
	return withClient(ctx, "export", &c.queueFlags, func(client *unroutable.Client) error { return c.export(ctx, client, s) })
}

func (c *unroutableExportCmd) export(ctx context.Context, client *unroutable.Client, s streams) (err error) {
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
	n, err := c.write(ctx, client, out, show)
	if err != nil {
		return err
	}
	show.End()
	_, err = fmt.Fprintf(s.err, "exported %s of %s; they are still there\n", messages(n), client.Queue())
	return err
}

func (c *unroutableExportCmd) write(ctx context.Context, client *unroutable.Client, out io.Writer, show *cli.Display) (n int, err error) {
	buffered := bufio.NewWriter(out)
	w := walk{client: client, flags: &c.queueFlags, show: show, after: buffered.Flush}
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
