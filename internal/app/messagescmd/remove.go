package messagescmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

type retryCmd struct {
	queueFlags
	cli.Format
	Delay *cli.Delay `help:"How long messages that delayer serve has parked wait from now on, such as 30m; 0: they are delivered at once. Without it, as their publishers have said, which may be why they were parked."`
	To    *string    `placeholder:"EXCHANGE" help:"Where unroutable messages are sent that do not tell where they belong, with their routing key, such as those that a consumer has published to the exchange of a delivery. --to= sends each to the queue that its key names."`
	From  string     `placeholder:"QUEUE" help:"The queue in which parked messages failed, where the names do not tell: without it only messages of Q are sent from Q.parked. Anybody who can publish to a queue of parked messages can write that they failed elsewhere."`
}

// Help says when a message is removed.
func (c *retryCmd) Help() string {
	return "Each message is removed from the queue once the broker has confirmed it at its destination. The attempts of a parked one count from the start. " +
		"The exit status is 1 if selected messages stay."
}

// Run sends the messages one after the other.
func (c *retryCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.with(ctx, func(client *undelivered.Client) error {
		if client.From = c.From; c.From != "" && !client.Parked() {
			return errors.New("--from is for a queue of parked messages: name it first")
		}
		if client.To = c.To; c.To != nil && client.Parked() {
			return errors.New("--to is for unroutable messages: parked ones go to the queue in which they failed")
		}
		if c.Delay != nil {
			if *c.Delay < 0 {
				return errors.New("--delay is negative")
			}
			if !kept.Delayable(client.Queue()) {
				return errors.New("--delay is for the messages that delayer serve has parked: others wait as they did, or not at all")
			}
			client.NewDelay = time.Duration(*c.Delay).String()
		}
		opening, cancel := c.Within(ctx)
		sender, err := client.Sender(opening)
		cancel()
		if err != nil {
			return err
		}
		defer sender.Close()
		r := retrial{retryCmd: c, client: client, sender: sender, sent: tally{}, stay: tally{}}
		r.total, r.read, err = c.walk(ctx, client, func(m *undelivered.Kept) error { return r.visit(ctx, m) }, nil)
		if err != nil && r.total == 0 {
			return err
		}
		if err = errors.Join(err, r.report(s.Out)); err != nil {
			return err
		}
		if n := r.stay.sum(); n > 0 {
			stay := "stay"
			if n == 1 {
				stay = "stays"
			}
			return fmt.Errorf("%s %s: fix what is named above, and retry", cli.Count(n, "message"), stay)
		}
		return nil
	})
}

// A retrial is one run of the command.
type retrial struct {
	*retryCmd
	client     *undelivered.Client
	sender     *undelivered.Sender
	total      int
	read       int   // of them; fewer after an interrupt
	visited    int   // of those: they were selected
	sent, stay tally // by destination
}

// visit sends a message, and removes it once it is confirmed. It finishes even after an interrupt.
func (r *retrial) visit(ctx context.Context, m *undelivered.Kept) error {
	defer m.Forget()
	r.visited++
	sending, cancel := r.Within(context.WithoutCancel(ctx))
	defer cancel()
	why, err := r.sender.Send(sending, m)
	switch {
	case err != nil:
		return fmt.Errorf("%w; it is still in %s, and may be at its destination as well", err, r.client.Queue())
	case why != "":
		r.stay[kept.Destination(m)+": "+why]++
		return nil
	}
	r.sent[kept.Destination(m)]++
	return m.Remove()
}

// report says what was done, by destination.
func (r *retrial) report(out io.Writer) error {
	unselected, unreached := r.read-r.visited, max(0, r.total-r.read)
	if r.JSON() {
		return cli.WriteJSON(out, map[string]any{
			"queue": r.client.Queue(), "total": r.total, "sent": r.sent, "stay": r.stay,
			"not_selected": unselected, "not_reached": unreached,
		})
	}
	if r.total == 0 {
		_, err := fmt.Fprintln(out, r.client.Queue()+" is empty: there is nothing to send.")
		return err
	}
	t := cli.NewTable("MESSAGES", "", "DESTINATION")
	for _, name := range r.sent.order() {
		t.Add(strconv.Itoa(r.sent[name]), "sent", name)
	}
	for _, name := range r.stay.order() {
		t.Add(strconv.Itoa(r.stay[name]), "stay", name)
	}
	if t.Rows() > 0 {
		_ = t.Write(out) // the last line says
		fmt.Fprintln(out)
	}
	last := ""
	if unreached > 0 { // it was interrupted, or somebody else has taken them
		last = fmt.Sprintf(", %d not reached", unreached)
	}
	_, err := fmt.Fprintf(out, "%s in %s: %d sent, %d stay, %d not selected%s.\n",
		cli.Count(r.total, "message"), r.client.Where(), r.sent.sum(), r.stay.sum(), unselected, last)
	return err
}

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
		_, _, err := c.walk(ctx, client, func(m *undelivered.Kept) error {
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
