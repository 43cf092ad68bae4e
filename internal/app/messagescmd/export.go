package messagescmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// exportCmd is `delayer messages export`.
type exportCmd struct {
	queueFlags
	Out string `placeholder:"FILE" help:"Write to this new file instead of standard output."`
}

// Run writes one message a line.
func (c *exportCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.with(ctx, func(client *undelivered.Client) error { return c.export(ctx, client, s) })
}

func (c *exportCmd) export(ctx context.Context, client *undelivered.Client, s cli.Streams) (err error) {
	out := s.Out
	if c.Out != "" {
		file, err := os.OpenFile(c.Out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // bodies may be confidential
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		out = file
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	n, lines := 0, bufio.NewWriter(out)
	_, _, err = c.walk(ctx, client, s, func(m *undelivered.Kept) error {
		line, err := m.Export()
		if err != nil {
			return err
		}
		n++
		m.Forget()
		_, err = lines.Write(append(line, '\n'))
		return err
	}, nil)
	all := ""
	if err != nil {
		all = ", which are not all"
	}
	err = errors.Join(err, lines.Flush())
	if n > 0 || err == nil {
		_, said := fmt.Fprintf(s.Err, "exported %s of %s%s; they are still there\n", cli.Count(n, "message"), client.Where(), all)
		err = errors.Join(err, said)
	}
	return err
}
