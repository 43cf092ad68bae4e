package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/unroutable"
)

// unroutablePurgeCmd is `delayer unroutable purge`.
type unroutablePurgeCmd struct {
	queueFlags
	purgeFlags
}

// purgeFlags are those of a command that deletes messages.
type purgeFlags struct {
	outputFlag
	Yes bool `help:"Delete without asking. json needs it."`
}

// Run shows what it would delete, asks, and deletes exactly that: it holds the messages meanwhile.
func (c *unroutablePurgeCmd) Run(ctx context.Context, s streams) error {
	p := purge{c.purgeFlags, c.selects, destination, "DESTINATION"}
	return withClient(ctx, "unroutable purge", c.open, func(client *unroutable.Client) error { return p.run(ctx, client, s) })
}

// A purge deletes the selected messages, once it is agreed.
type purge struct {
	purgeFlags
	selects func(*unroutable.Message) bool
	name    func(*unroutable.Message) string // under which a message is counted
	heading string                           // of these names
}

func (c purge) run(ctx context.Context, client *unroutable.Client, s streams) error {
	switch {
	case c.Yes:
	case c.json():
		return errors.New("--output json asks nobody: give --yes (export keeps a copy)")
	case !cli.IsTerminal(s.in):
		return errors.New("standard input is no terminal: give --yes (export keeps a copy)")
	}
	show := cli.NewDisplay(s.err)
	defer show.End()
	var found []*unroutable.Message
	what := tally{}
	w := walk{client: client, selects: c.selects, show: show}
	w.visit = func(m *unroutable.Message) error {
		m.Forget()
		found = append(found, m)
		what.add(c.name(m))
		return nil
	}
	w.after = func() error {
		show.End()
		return c.remove(ctx, client, s, found, what)
	}
	_, err := w.run(ctx)
	return err
}

// remove deletes the found messages if the user agrees.
func (c purge) remove(ctx context.Context, client *unroutable.Client, s streams, found []*unroutable.Message, what tally) error {
	if c.json() {
		if err := removeAll(found); err != nil {
			return err
		}
		return writeJSON(s.out, map[string]any{"queue": client.Queue(), "deleted": what})
	}
	if len(found) == 0 {
		_, err := fmt.Fprintf(s.out, "nothing to delete in %s\n", client.Queue())
		return err
	}
	t := newTable("MESSAGES", c.heading)
	for _, name := range what.order() {
		t.add(fmt.Sprint(what[name]), name)
	}
	if err := t.write(s.out); err != nil {
		return err
	}
	if err := c.agreed(ctx, client, s, len(found)); err != nil {
		return err
	}
	if err := removeAll(found); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "\ndeleted %s from %s\n", messages(len(found)), client.Queue())
	return err
}

func removeAll(found []*unroutable.Message) error {
	for _, m := range found {
		if err := m.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// agreed asks the user at the terminal.
func (c purge) agreed(ctx context.Context, client *unroutable.Client, s streams, n int) error {
	if c.Yes {
		return nil
	}
	fmt.Fprintf(s.out, "\nDelete %s from %s for ever? Type %d to agree: ", messages(n), client.Queue(), n)
	typed := make(chan string, 1)
	go func() { // a read of the terminal cannot be cancelled; the process ends soon
		line, _ := bufio.NewReader(s.in).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case text := <-typed:
		if text == fmt.Sprint(n) {
			return nil
		}
		return errors.New("not agreed: nothing was deleted")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
