package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/unroutable"
)

// unroutableRetryCmd is `delayer unroutable retry`.
type unroutableRetryCmd struct {
	queueFlags
	DryRun bool `help:"Show what would be sent, and send nothing."`
}

// Run sends the messages one after the other. Each is removed from the queue once the broker has
// confirmed it at its destination. Run fails if selected messages stay.
func (c *unroutableRetryCmd) Run(ctx context.Context, s streams) error {
	return withClient(ctx, "retry", &c.queueFlags, func(client *unroutable.Client) error {
		opening, cancel := context.WithTimeout(ctx, c.Timeout)
		sender, err := client.Sender(opening)
		cancel()
		if err != nil {
			return err
		}
		defer sender.Close()
		r := retrial{cmd: c, client: client, sender: sender, sent: tally{}, stay: tally{}}
		err = r.run(ctx, cli.NewDisplay(s.err))
		r.report(s.out)
		if err != nil {
			return err
		}
		return r.verdict()
	})
}

// A retrial is one run of the command.
type retrial struct {
	cmd        *unroutableRetryCmd
	client     *unroutable.Client
	sender     *unroutable.Sender
	look       *look
	total      int
	sent, stay tally
}

func (r *retrial) run(ctx context.Context, show *cli.Display) (err error) {
	defer show.End()
	r.look = newLook(r.client)
	w := walk{client: r.client, flags: &r.cmd.queueFlags, show: show}
	w.visit = func(m *unroutable.Message) error {
		defer m.Forget()
		if r.cmd.DryRun {
			return r.foresee(ctx, m)
		}
		return r.send(ctx, m)
	}
	r.total, err = w.run(ctx)
	return err
}

// send finishes the current message even after an interrupt.
func (r *retrial) send(ctx context.Context, m *unroutable.Message) error {
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cmd.Timeout)
	defer cancel()
	why, err := r.sender.Send(sending, m)
	if err != nil {
		return fmt.Errorf("%w; it is still in %s, and may be at its destination as well", err, r.client.Queue())
	}
	if why != "" {
		r.stay.add(destination(m) + ": " + why)
		return nil
	}
	r.sent.add(destination(m))
	return m.Remove()
}

// foresee counts what send would do, as far as it can be known.
func (r *retrial) foresee(ctx context.Context, m *unroutable.Message) error {
	if why := r.sender.Unfit(m, time.Now()); why != "" {
		r.stay.add(destination(m) + ": " + why)
		return nil
	}
	there, err := r.look.there(ctx, m)
	if err != nil {
		return err
	}
	if there == delivery.Gone {
		r.stay.add(destination(m) + ": it does not exist")
		return nil
	}
	r.sent.add(destination(m))
	return nil
}

// report says what was done, by destination.
func (r *retrial) report(out io.Writer) {
	sent, stay := "sent", "stay"
	if r.cmd.DryRun {
		sent, stay = "would be sent", "would stay"
	}
	t := newTable("MESSAGES", "", "DESTINATION")
	for _, group := range []struct {
		what string
		of   tally
	}{{sent, r.sent}, {stay, r.stay}} {
		for _, name := range group.of.order() {
			t.add(fmt.Sprint(group.of[name]), group.what, name)
		}
	}
	if len(t.rows) > 1 {
		_ = t.write(out)
		fmt.Fprintln(out)
	}
	if r.total == 0 {
		fmt.Fprintln(out, r.client.Queue()+" is empty: there is nothing to send.")
		return
	}
	fmt.Fprintf(out, "%s: %d %s, %d %s, %d not selected.\n", messages(r.total)+" in "+r.client.Queue(),
		r.sent.sum(), sent, r.stay.sum(), stay, max(0, r.total-r.sent.sum()-r.stay.sum()))
}

func (r *retrial) verdict() error {
	if n := r.stay.sum(); n > 0 && !r.cmd.DryRun {
		return fmt.Errorf("%s stay: declare the missing destinations, and retry", messages(n))
	}
	return nil
}

// A tally counts messages by text.
type tally map[string]int

func (t tally) add(name string) { t[name]++ }

func (t tally) sum() (n int) {
	for _, count := range t {
		n += count
	}
	return n
}

// order is the names, those with most messages first.
func (t tally) order() []string {
	return slices.SortedStableFunc(slices.Values(slices.Sorted(maps.Keys(t))), func(a, b string) int { return t[b] - t[a] })
}
