package delayertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Schedule implements [delayer.Delayer].
func (d *Delayer) Schedule(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) (delayer.Ticket, error) {
	if d.limits.CancelBefore == 0 {
		return delayer.NoTickets{Backend: name}.Schedule(ctx, exchange, key, delay, msg)
	}
	w, err := d.put(ctx, "schedule", delayer.Message{Exchange: exchange, Key: key, Delay: delay, Publishing: msg})
	if w == nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.newTicket(named{w, w.due}), err
}

// Cancel implements [delayer.Delayer].
func (d *Delayer) Cancel(ctx context.Context, t delayer.Ticket) error {
	const op = "cancel"
	if d.limits.CancelBefore == 0 {
		return delayer.NoTickets{Backend: name}.Cancel(ctx, t)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(ctx, op, t)
	if err != nil {
		return err
	}
	answer, err := d.answer(ctx, ofTicket(op))
	if err != nil {
		return err
	}
	n.cancelled = true
	d.remove(n.waiting)
	return answer
}

// Postpone implements [delayer.Delayer].
func (d *Delayer) Postpone(ctx context.Context, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	const op = "postpone"
	if d.limits.CancelBefore == 0 {
		return delayer.NoTickets{Backend: name}.Postpone(ctx, t, delay)
	}
	wait, err := d.fit(delay)
	if err != nil {
		return "", ofTicket(op)(delayer.ErrOutOfRange, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(ctx, op, t)
	if err != nil {
		return "", err
	}
	due := d.now().Add(wait)
	switch earlier := n.due.Sub(due); {
	case earlier > 0 && earlier >= d.limits.Resolution:
		return "", notLater(op, earlier)
	case earlier >= 0:
		return t, nil
	}
	answer, err := d.answer(ctx, ofTicket(op))
	if err != nil {
		return "", err
	}
	if !n.cancelled && due.After(n.waiting.due) {
		d.remove(n.waiting)
		n.waiting.due = due
		d.wait(n.waiting)
	}
	if answer != nil {
		return "", answer
	}
	return d.newTicket(named{n.waiting, due}), nil
}

// A named is what a ticket names: a message, and the time when the ticket says that it is due.
type named struct {
	*waiting
	due time.Time
}

// find returns what a ticket names, if it is not too late for that.
func (d *Delayer) find(ctx context.Context, op string, t delayer.Ticket) (named, error) {
	fail := ofTicket(op)
	n, ok := d.tickets[t]
	if !ok {
		return n, fail(delayer.ErrTicket, nil)
	}
	if err := d.ready(ctx, fail); err != nil {
		return n, err
	}
	if n.due.Sub(d.now()) < d.limits.CancelBefore {
		return n, fail(delayer.ErrTooLate, nil)
	}
	return n, nil
}

// ofTicket makes errors about a ticket.
func ofTicket(op string) func(kind, cause error) error {
	return func(kind, cause error) error { return failure(op, delayer.Message{}, kind, cause) }
}

// notLater refuses a Postpone to an earlier time.
func notLater(op string, earlier time.Duration) error {
	return &delayer.Error{
		Op: op, Backend: name, Kind: delayer.ErrOutOfRange,
		Cause: fmt.Errorf("that is %v before the time of the ticket, and a message can only be postponed", earlier),
		Hint:  "to make a message earlier: Cancel, and Schedule it anew",
	}
}

func (b *broker) newTicket(n named) delayer.Ticket {
	t := delayer.Ticket(rand.Text())
	b.tickets[t] = n
	return t
}
