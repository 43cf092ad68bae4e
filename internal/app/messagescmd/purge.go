package messagescmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// purgeCmd is `delayer messages purge`.
type purgeCmd struct {
	queueFlags
	cli.Format
	Yes bool `help:"Delete without asking. json needs it."`
}

// Run shows what it would delete, asks, and deletes exactly that: it holds the messages meanwhile.
func (c *purgeCmd) Run(ctx context.Context, s cli.Streams) error {
	switch {
	case c.Yes:
	case c.JSON():
		return errors.New("--output json asks nobody: give --yes (export keeps a copy)")
	case !cli.IsTerminal(s.In):
		return errors.New("standard input is no terminal: give --yes (export keeps a copy)")
	}
	return c.with(ctx, func(client *undelivered.Client) error {
		var found []*undelivered.Kept
		what := tally{}
		_, _, err := c.walk(ctx, client, s, func(m *undelivered.Kept) error {
			m.Forget()
			found = append(found, m)
			what[kept.Destination(m)]++
			return nil
		}, func() error { return c.remove(ctx, client, s, found, what) })
		return err
	})
}

// remove deletes the found messages if the user agrees.
func (c *purgeCmd) remove(ctx context.Context, client *undelivered.Client, s cli.Streams, found []*undelivered.Kept, what tally) error {
	queue := client.Where()
	switch {
	case c.JSON():
	case len(found) == 0:
		_, err := fmt.Fprintf(s.Out, "nothing to delete in %s\n", queue)
		return err
	default:
		t := cli.NewTable("MESSAGES", "DESTINATION")
		for _, name := range what.order() {
			t.Add(strconv.Itoa(what[name]), name)
		}
		if err := t.Write(s.Out); err != nil {
			return err
		}
	}
	if !c.Yes {
		question := fmt.Sprintf("\nDelete %s from %s for ever?", cli.Count(len(found), "message"), queue)
		if err := cli.Agree(ctx, s, question, strconv.Itoa(len(found)), "--yes"); err != nil {
			return err
		}
	}
	for _, m := range found {
		if err := m.Remove(); err != nil {
			return err
		}
	}
	if c.JSON() {
		return cli.WriteJSON(s.Out, map[string]any{"queue": client.Queue(), "deleted": what})
	}
	_, err := fmt.Fprintf(s.Out, "\ndeleted %s from %s\n", cli.Count(len(found), "message"), queue)
	return err
}
