package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/unroutable"
)

// unroutableRetryCmd is `delayer unroutable retry`.
type unroutableRetryCmd struct {
	queueFlags
	outputFlag
	DryRun bool `help:"Show what would be sent, and send nothing."`
}

// Run sends the messages one after the other. Each is removed from the queue once the broker has
// confirmed it at its destination. Run fails if selected messages stay.
func (c *unroutableRetryCmd) Run(ctx context.Context, s streams) error {
	return withClient(ctx, "unroutable retry", c.open, func(client *unroutable.Client) error {
		look := newLook(client)
		return retryAll(ctx, client, s, retrial{
			dryRun: c.DryRun, json: c.json(), within: c.within, selects: c.selects, name: destination, heading: "DESTINATION",
			send: (*unroutable.Sender).Send, foresee: look.foresee,
		})
	})
}

// retryAll runs a retrial, which it completes.
func retryAll(ctx context.Context, client *unroutable.Client, s streams, r retrial) error {
	opening, cancel := r.within(ctx)
	sender, err := client.Sender(opening)
	cancel()
	if err != nil {
		return err
	}
	defer sender.Close()
	r.client, r.sender, r.sent, r.stay = client, sender, tally{}, tally{}
	err = errors.Join(r.run(ctx, cli.NewDisplay(s.err)), r.report(s.out))
	if err != nil {
		return err
	}
	return r.verdict()
}

// A retrial is one run of the command.
type retrial struct {
	dryRun  bool
	json    bool
	within  func(context.Context) (context.Context, context.CancelFunc) // bounds each message
	selects func(*unroutable.Message) bool
	name    func(*unroutable.Message) string // under which a message is counted
	heading string                           // of these names
	send    func(*unroutable.Sender, context.Context, *unroutable.Message) (stays string, err error)
	foresee func(context.Context, *unroutable.Sender, *unroutable.Message) (stays string, err error) // what send would say

	client     *unroutable.Client
	sender     *unroutable.Sender
	total      int
	sent, stay tally
}

func (r *retrial) run(ctx context.Context, show *cli.Display) (err error) {
	defer show.End()
	w := walk{client: r.client, selects: r.selects, show: show}
	w.visit = func(m *unroutable.Message) error {
		defer m.Forget()
		if r.dryRun {
			why, err := r.foresee(ctx, r.sender, m)
			r.count(m, why, err)
			return err
		}
		return r.one(ctx, m)
	}
	r.total, err = w.run(ctx)
	return err
}

// one finishes the current message even after an interrupt.
func (r *retrial) one(ctx context.Context, m *unroutable.Message) error {
	sending, cancel := r.within(context.WithoutCancel(ctx))
	defer cancel()
	why, err := r.send(r.sender, sending, m)
	if err != nil {
		return fmt.Errorf("%w; it is still in %s, and may be at its destination as well", err, r.client.Queue())
	}
	if r.count(m, why, nil); why != "" {
		return nil
	}
	return m.Remove()
}

func (r *retrial) count(m *unroutable.Message, why string, err error) {
	switch {
	case err != nil:
	case why != "":
		r.stay.add(r.name(m) + ": " + why)
	default:
		r.sent.add(r.name(m))
	}
}

// foresee is what Send would say, as far as that can be known.
func (l *look) foresee(ctx context.Context, s *unroutable.Sender, m *unroutable.Message) (stays string, err error) {
	if why, err := s.Unfit(ctx, m); why != "" || err != nil {
		return why, err
	}
	there, err := l.there(ctx, m)
	if err == nil && there == delivery.Gone {
		return "it does not exist", nil
	}
	return "", err
}

// report says what was done, by destination.
func (r *retrial) report(out io.Writer) error {
	left := max(0, r.total-r.sent.sum()-r.stay.sum())
	if r.json {
		return writeJSON(out, map[string]any{
			"queue": r.client.Queue(), "total": r.total, "dry_run": r.dryRun, "sent": r.sent, "stay": r.stay, "not_selected": left,
		})
	}
	sent, stay := "sent", "stay"
	if r.dryRun {
		sent, stay = "would be sent", "would stay"
	}
	t := newTable("MESSAGES", "", r.heading)
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
		_, err := fmt.Fprintln(out, r.client.Queue()+" is empty: there is nothing to send.")
		return err
	}
	_, err := fmt.Fprintf(out, "%s: %d %s, %d %s, %d not selected.\n", messages(r.total)+" in "+r.client.Queue(),
		r.sent.sum(), sent, r.stay.sum(), stay, left)
	return err
}

func (r *retrial) verdict() error {
	if n := r.stay.sum(); n > 0 && !r.dryRun {
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
