package sendcmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// timeLayout is how a due time is printed.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// ticketFlags are those of the commands that take tickets.
type ticketFlags struct {
	flags.Broker
	cli.Format
	flags.Deadline
}

// with calls use with a Delayer beside which no controller runs.
func (f *ticketFlags) with(ctx context.Context, use func(context.Context, delayer.Delayer) error) error {
	cfg, err := f.Load()
	if err != nil {
		return err
	}
	limits, err := backend.Limits(cfg)
	if err != nil {
		return err
	}
	if limits.CancelBefore == 0 { // before Open, which declares queues
		return errors.New("with this configuration messages cannot be cancelled: use that of the sender, with backend controller and wheel slots")
	}
	ctx, cancel := f.Within(ctx)
	defer cancel()
	d, err := flags.OpenBriefly(ctx, cfg)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // what was asked is confirmed, or its error is what matters
	return use(ctx, d)
}

// Cancel is `delayer cancel`.
type Cancel struct {
	Tickets []delayer.Ticket `arg:"" optional:"" name:"ticket" help:"What delayer send, or Schedule, has returned."`
	ID      string           `placeholder:"ID" help:"With --at, instead of a ticket: the id with which the message was sent."`
	At      *moment          `placeholder:"TIME" help:"When that message is due, exactly: 2027-01-31T18:00:00Z, or 2027-01-31T18:00 in this machine's zone."`
	ticketFlags
}

// Validate refuses invalid values as usage errors, before anything is opened.
func (c *Cancel) Validate() error {
	if (c.ID == "") != (c.At == nil) || (c.ID == "") == (len(c.Tickets) == 0) {
		return errors.New("give tickets, or --id and --at")
	}
	return c.Deadline.Validate()
}

// cancelledTicket is what cancel says of a ticket.
type cancelledTicket struct {
	Ticket    delayer.Ticket `json:"ticket"`
	Cancelled *bool          `json:"cancelled"` // null if that is not known
	Error     string         `json:"error,omitempty"`
}

// Run cancels all that can be cancelled.
func (c *Cancel) Run(ctx context.Context, s cli.Streams) error {
	done := make([]cancelledTicket, 0, len(c.Tickets))
	failed := 0
	err := c.with(ctx, func(ctx context.Context, by delayer.Delayer) error {
		if c.ID != "" {
			ticket, err := by.Ticket(c.ID, c.At.Time)
			if err != nil {
				return err
			}
			c.Tickets = []delayer.Ticket{ticket}
		}
		for _, ticket := range c.Tickets {
			err := by.Cancel(ctx, ticket)
			is := err == nil
			one := cancelledTicket{Ticket: ticket, Cancelled: &is}
			if err != nil {
				one.Error = err.Error()
				failed++
			}
			if errors.Is(err, delayer.ErrUnknown) {
				one.Cancelled = nil
			}
			done = append(done, one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.print(s, done); err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("not cancelled: %d of %s", failed, cli.Count(len(done), "message"))
}

func (c *Cancel) print(s cli.Streams, done []cancelledTicket) error {
	if c.JSON() {
		return cli.WriteJSON(s.Out, done)
	}
	for _, one := range done {
		said := "cancelled"
		switch {
		case one.Cancelled == nil:
			said = "perhaps cancelled: " + one.Error
		case !*one.Cancelled:
			said = "not cancelled: " + one.Error
		}
		if _, err := fmt.Fprintf(s.Out, "%s  %s\n", one.Ticket, said); err != nil {
			return err
		}
	}
	return nil
}

// Postpone is `delayer postpone`.
type Postpone struct {
	Ticket delayer.Ticket `arg:"" help:"What delayer send, Schedule or Postpone has returned."`
	Delay  *cli.Delay     `arg:"" optional:"" help:"How long the message waits from now on, such as 90s, 36h or 2d."`
	At     *moment        `placeholder:"TIME" help:"When it is due, instead of a delay: 2027-01-31T18:00:00Z, or 2027-01-31T18:00 in this machine's zone."`
	ticketFlags
}

// Validate refuses invalid values as usage errors, before anything is opened.
func (c *Postpone) Validate() error {
	if _, err := until(c.Delay, c.At, time.Now()); err != nil {
		return err
	}
	return c.Deadline.Validate()
}

// scheduled is what postpone says. The time is the one that the backend keeps.
type scheduled struct {
	Due    time.Time      `json:"due"`
	Ticket delayer.Ticket `json:"ticket,omitempty"`
}

// due is when a message with a delay comes.
func due(l delayer.Limits, now time.Time, delay time.Duration) scheduled {
	if longer, err := message.RoundUp(delay, l); err == nil { // Publish says what is wrong
		delay = longer
	}
	return scheduled{Due: now.Add(delay)}
}

// String names the ticket last, if there is one.
func (s scheduled) String() string {
	text := "due " + s.Due.Format(timeLayout)
	if s.Ticket != "" {
		text += ", ticket " + string(s.Ticket)
	}
	return text
}

// Run postpones one message.
func (c *Postpone) Run(ctx context.Context, s cli.Streams) error {
	var next scheduled
	err := c.with(ctx, func(ctx context.Context, by delayer.Delayer) (err error) {
		now := time.Now()
		delay, err := until(c.Delay, c.At, now)
		if err != nil {
			return err
		}
		next = due(by.Limits(), now, delay)
		next.Ticket, err = by.Postpone(ctx, c.Ticket, delay)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON() {
		return cli.WriteJSON(s.Out, next)
	}
	_, err = fmt.Fprintln(s.Out, next)
	return err
}

type moment struct{ time.Time }

// UnmarshalText reads a time with its zone, or one of this machine's zone.
func (m *moment) UnmarshalText(text []byte) (err error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04"} {
		if m.Time, err = time.ParseInLocation(layout, string(text), time.Local); err == nil {
			return nil
		}
	}
	return errors.New("it must be a time such as 2027-01-31T18:00:00Z, or 2027-01-31T18:00 in this machine's zone")
}

// until returns how long a message waits: until at, or delay.
func until(delay *cli.Delay, at *moment, now time.Time) (time.Duration, error) {
	switch {
	case (delay == nil) == (at == nil):
		return 0, errors.New("give a delay, or --at with a time")
	case delay != nil && *delay < 0:
		return 0, fmt.Errorf("the delay %v is negative", time.Duration(*delay))
	case delay != nil:
		return time.Duration(*delay), nil
	case !at.After(now):
		return 0, fmt.Errorf("--at: %s has passed", at.Format(time.RFC3339))
	}
	left := at.Sub(now)
	if left == math.MaxInt64 { // what Sub returns for more
		return 0, fmt.Errorf("--at: %s is more than 292 years away", at.Format(time.DateOnly))
	}
	return left, nil
}
