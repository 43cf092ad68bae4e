package delayertest

import (
	"context"
	"crypto/rand"
	"slices"
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
	return d.newTicket(w), err
}

// Cancel implements [delayer.Delayer].
func (d *Delayer) Cancel(ctx context.Context, t delayer.Ticket) error {
	if d.limits.CancelBefore == 0 {
		return delayer.NoTickets{Backend: name}.Cancel(ctx, t)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w, answer, err := d.find(ctx, "cancel", t)
	if err != nil && (w == nil || !w.cancelled) {
		return err
	}
	w.cancelled = true
	d.remove(w)
	return answer
}

// Reschedule implements [delayer.Delayer].
func (d *Delayer) Reschedule(ctx context.Context, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	if d.limits.CancelBefore == 0 {
		return delayer.NoTickets{Backend: name}.Reschedule(ctx, t, delay)
	}
	wait, err := d.fit(delay)
	if err != nil {
		return "", failure("reschedule", delayer.Message{}, delayer.ErrOutOfRange, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w, answer, err := d.find(ctx, "reschedule", t)
	if err != nil {
		return "", err
	}
	due := d.now().Add(wait)
	if t == w.ticket || due.After(w.due) { // of calls with the same ticket the latest time counts
		d.remove(w)
		w.due = due
		d.wait(w)
	}
	return d.newTicket(w), answer
}

// find returns a message that can be cancelled. With [delayer.ErrTooLate] it returns the message too.
func (d *Delayer) find(ctx context.Context, op string, t delayer.Ticket) (w *waiting, answer, err error) {
	fail := func(kind, cause error) error { return failure(op, delayer.Message{}, kind, cause) }
	w = d.tickets[t]
	if w == nil {
		return nil, nil, fail(delayer.ErrTicket, nil)
	}
	if answer, err = d.answer(ctx, fail); err != nil {
		return nil, nil, err
	}
	if !slices.Contains(d.waiting, w) || w.due.Sub(d.now()) < d.limits.CancelBefore {
		return w, answer, fail(delayer.ErrTooLate, nil)
	}
	return w, answer, nil
}

func (b *broker) newTicket(w *waiting) delayer.Ticket {
	w.ticket = delayer.Ticket(rand.Text())
	b.tickets[w.ticket] = w
	return w.ticket
}
