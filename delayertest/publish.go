package delayertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// Publish implements [delayer.Delayer].
func (d *Delayer) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	_, err := d.put(ctx, "publish", delayer.Message{Exchange: exchange, Key: key, Delay: delay, Publishing: msg})
	return err
}

// PublishBatch implements [delayer.Delayer].
func (d *Delayer) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return delayer.PublishEach(ctx, d.Publish, messages)
}

// put stores a message, and returns it unless the error says that it is not stored.
func (d *Delayer) put(ctx context.Context, op string, m delayer.Message) (*waiting, error) {
	fail := func(kind, cause error) error {
		if errors.Is(kind, delayer.ErrRefused) && m.Delay == 0 {
			cause = errNack
		}
		return failure(op, m, kind, cause)
	}
	wait, err := d.fit(m.Delay)
	if err != nil {
		return nil, fail(delayer.ErrOutOfRange, err)
	}
	const frame = 128 << 10
	bounds := message.Limits{FrameSize: frame, User: m.Publishing.UserId, MaxPriority: d.limits.MaxPriority}
	if err := message.Validate(m.Exchange, m.Key, &m.Publishing, bounds); err != nil {
		return nil, fail(delayer.ErrInvalid, err)
	}
	m.Publishing.Body = slices.Clone(m.Publishing.Body)
	m.Publishing.Headers, _ = copied(m.Publishing.Headers, func(v any) any { return v }).(amqp091.Table)

	d.mu.Lock()
	defer d.mu.Unlock()
	answer, err := d.answer(ctx, fail)
	if err != nil {
		return nil, err
	}
	sealed := message.Seal(m.Publishing, message.NewEnvelope(d.now().Add(m.Delay), m.Delay, m.Exchange), nil)
	sealed.Body = slices.Clone(sealed.Body)
	sealed.Headers, _ = copied(sealed.Headers, asRead).(amqp091.Table)
	w := &waiting{Message: m, sealed: sealed, due: d.now().Add(wait)}
	d.published = append(d.published, m)
	d.wait(w)
	return w, answer
}

// answer returns what the test wants a call to answer, and an error if that is not done then.
func (d *Delayer) answer(ctx context.Context, fail func(kind, cause error) error) (answer, err error) {
	if err := d.ready(ctx, fail); err != nil || len(d.answers) == 0 {
		return nil, err
	}
	answer, d.answers = d.answers[0], d.answers[1:]
	if answer == nil {
		return nil, nil
	}
	if errors.Is(answer, delayer.ErrUnknown) {
		return fail(answer, nil), nil
	}
	return nil, fail(answer, nil)
}

func (d *Delayer) ready(ctx context.Context, fail func(kind, cause error) error) error {
	switch {
	case d.closed:
		return fail(delayer.ErrClosed, nil)
	case ctx.Err() != nil:
		return fail(delayer.ErrNotSent, ctx.Err())
	}
	return nil
}

// errNack: who publishes without a delay cannot know whether another queue has a message that was
// refused.
var errNack = fmt.Errorf("nack: %w", delayer.ErrUnknown)

// fit returns how long a message waits: its delay, rounded up.
func (b *broker) fit(delay time.Duration) (time.Duration, error) {
	if delay < 0 {
		return 0, fmt.Errorf("%v is negative", delay)
	}
	wait, err := message.RoundUp(delay, b.limits)
	if err == nil && b.limits.ExactTiers && wait != delay {
		err = fmt.Errorf("%v is none of the tiers %v", delay, b.limits.Tiers)
	}
	return wait, err
}

// failure is an error about a message, or about a ticket if m is empty.
func failure(op string, m delayer.Message, kind, cause error) error {
	object := ""
	switch {
	case m.Exchange != "":
		object = fmt.Sprintf("to exchange %.300q with key %.300q", m.Exchange, m.Key)
	case m.Key != "":
		object = fmt.Sprintf("to queue %.300q", m.Key)
	}
	return &delayer.Error{Op: op, Backend: name, Object: object, Kind: kind, Cause: cause}
}

// wait puts a message among those that wait: behind those that are due at the same time.
func (b *broker) wait(w *waiting) {
	i, _ := slices.BinarySearchFunc(b.waiting, w, func(other, w *waiting) int {
		return cmp.Or(other.due.Compare(w.due), -1)
	})
	b.waiting = slices.Insert(b.waiting, i, w)
	if b.timers {
		time.AfterFunc(time.Until(w.due), b.deliver)
	}
}

func (b *broker) remove(w *waiting) {
	b.waiting = slices.DeleteFunc(b.waiting, func(other *waiting) bool { return other == w })
}

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
		return "", &delayer.Error{
			Op: op, Backend: name, Kind: delayer.ErrOutOfRange,
			Cause: fmt.Errorf("that is %v before the time of the ticket, and a message can only be postponed", earlier),
			Hint:  "to make a message earlier: Cancel, and Schedule it anew",
		}
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

func ofTicket(op string) func(kind, cause error) error {
	return func(kind, cause error) error { return failure(op, delayer.Message{}, kind, cause) }
}

func (b *broker) newTicket(n named) delayer.Ticket {
	t := delayer.Ticket(rand.Text())
	b.tickets[t] = n
	return t
}
