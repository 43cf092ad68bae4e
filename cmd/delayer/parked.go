package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/delayer-go/delayer/internal/attempt"
	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/unroutable"
)

// parkedCmd is `delayer parked`.
type parkedCmd struct {
	List   parkedListCmd   `cmd:"" help:"Show the messages that were given up, and why. It removes none."`
	Retry  parkedRetryCmd  `cmd:"" help:"Send them to their queue again; their attempts count from the start."`
	Export parkedExportCmd `cmd:"" help:"Write them as JSON lines. It removes none."`
	Purge  parkedPurgeCmd  `cmd:"" help:"Delete them."`
}

// parkedFlags say which queue, and which of its messages.
type parkedFlags struct {
	Queue string `arg:"" help:"The queue of parked messages: that of the consumer with .parked behind it, or its own name for them."`
	brokerFlags
	timeoutFlag `set:"wait=How long to wait for a connection, and for each confirm"`
	ID          []string `name:"id" placeholder:"ID" help:"Only the message with this id, that of Delayer or its own message-id."`
}

// Validate makes a value that cannot be right a usage error.
func (f *parkedFlags) Validate() error {
	if f.Queue == "" {
		return errors.New("the queue's name is empty")
	}
	return f.timeoutFlag.Validate()
}

// open connects to the queue.
func (f *parkedFlags) open(ctx context.Context) (*unroutable.Client, error) {
	cfg, err := f.load()
	if err != nil {
		return nil, err
	}
	ctx, cancel := f.within(ctx)
	defer cancel()
	cfg.Logger = slog.New(slog.DiscardHandler) // the error says it all
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return nil, err
	}
	return unroutable.OpenParked(ctx, settings.BrokerOptions("parked"), f.Queue)
}

// selects says that a message is one of those that the flags name.
func (f *parkedFlags) selects(m *unroutable.Message) bool {
	return len(f.ID) == 0 || m.MessageId != "" && slices.Contains(f.ID, m.MessageId) ||
		m.Ours && slices.Contains(f.ID, m.Envelope.ID)
}

// parkedListCmd is `delayer parked list`.
type parkedListCmd struct {
	parkedFlags
	outputFlag
	Limit int `default:"100" placeholder:"N" help:"Show at most N, the oldest (${default}); 0 shows all."`
}

// Validate makes a value that cannot be right a usage error.
func (c *parkedListCmd) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit: %d is negative; 0 shows all", c.Limit)
	}
	return c.parkedFlags.Validate()
}

// Run prints a table, oldest first, and how many there are.
func (c *parkedListCmd) Run(ctx context.Context, s streams) error {
	return withClient(ctx, "parked list", c.open, func(client *unroutable.Client) error { return c.list(ctx, client, s) })
}

func (c *parkedListCmd) list(ctx context.Context, client *unroutable.Client, s streams) error {
	show := cli.NewDisplay(s.err)
	defer show.End()
	list, selected, total, err := oldest(ctx, client, c.Limit, c.selects, show)
	if err != nil {
		return err
	}
	show.End()
	now := time.Now()
	given := make([]parkedMessage, len(list))
	for i, m := range list {
		given[i] = parkedOf(m, now)
	}
	if c.json() {
		return writeJSON(s.out, listing{client.Queue(), total, selected, given})
	}
	t := newTable("ID", "EXCHANGE", "KEY", "ATTEMPTS", "FIRST FAILURE", "SIZE", "REASON", "LAST ERROR")
	for i, m := range given {
		attempts, reason := strconv.Itoa(m.Attempts), orDash(m.Reason)
		if m.Attempts == 0 {
			attempts, reason = "-", m.Reason
		}
		t.add(idOf(list[i].Message), orDash(m.Exchange), orDash(m.Key), attempts,
			ago(m.First, now), size(m.Size), reason, orDash(m.LastError))
	}
	if len(list) > 0 {
		if err := t.write(s.out); err != nil {
			return err
		}
		fmt.Fprintln(s.out)
	}
	_, err = fmt.Fprintln(s.out, summary(client.Queue(), len(list), selected, total, len(c.ID) > 0))
	return err
}

// parkedMessage is what list --output json writes of a message.
type parkedMessage struct {
	messageIDs
	Exchange  string    `json:"exchange"`
	Key       string    `json:"routing_key"`
	Attempts  int       `json:"attempts"` // 0: it was not parked by package retry
	First     time.Time `json:"first_failure,omitzero"`
	Size      int       `json:"size"`
	Reason    string    `json:"reason"`
	LastError string    `json:"last_error"`
}

func parkedOf(m found, now time.Time) parkedMessage {
	p := parkedMessage{messageIDs: idsOf(m.Message), Size: m.size}
	state, ok := attempt.Parked(&m.Delivery, now)
	if !ok {
		p.Reason = "no " + attempt.Header + " header: not parked by package retry"
		return p
	}
	p.Exchange, p.Key, p.Attempts, p.First = state.Original.Exchange, state.Original.Key, state.Failures, state.First
	p.Reason, p.LastError = state.Reason, state.LastError()
	return p
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return shown(text)
}

// origin is the queue that a parked message comes from.
func origin(m *unroutable.Message) string {
	state, ok := attempt.Parked(&m.Delivery, time.Now())
	if !ok {
		return "unknown"
	}
	return "queue " + shown(state.Queue)
}

// parkedRetryCmd is `delayer parked retry`.
type parkedRetryCmd struct {
	parkedFlags
	outputFlag
	DryRun bool `help:"Say what would be sent, and send nothing."`
}

// Run sends the messages one after the other, each taken out once the broker has confirmed that its queue has it.
func (c *parkedRetryCmd) Run(ctx context.Context, s streams) error {
	return withClient(ctx, "parked retry", c.open, func(client *unroutable.Client) error {
		return retryAll(ctx, client, s, retrial{
			dryRun: c.DryRun, json: c.json(), within: c.within, selects: c.selects, name: origin, heading: "QUEUE",
			send: (*unroutable.Sender).Return,
			foresee: func(_ context.Context, _ *unroutable.Sender, m *unroutable.Message) (string, error) {
				return unroutable.Unreturnable(m), nil
			},
		})
	})
}

// parkedExportCmd is `delayer parked export`.
type parkedExportCmd struct {
	parkedFlags
	Out string `placeholder:"FILE" help:"Write here, to a file that does not exist yet, instead of the standard output."`
}

// Run writes one message a line.
func (c *parkedExportCmd) Run(ctx context.Context, s streams) error {
	e := export{c.Out, c.selects}
	return withClient(ctx, "parked export", c.open, func(client *unroutable.Client) error { return e.run(ctx, client, s) })
}

// parkedPurgeCmd is `delayer parked purge`.
type parkedPurgeCmd struct {
	parkedFlags
	purgeFlags
}

// Run says what it would delete, asks, and deletes just that: the messages are held meanwhile.
func (c *parkedPurgeCmd) Run(ctx context.Context, s streams) error {
	p := purge{c.purgeFlags, c.selects, origin, "QUEUE"}
	return withClient(ctx, "parked purge", c.open, func(client *unroutable.Client) error { return p.run(ctx, client, s) })
}
