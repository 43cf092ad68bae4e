package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/changes"
	"github.com/delayer-go/delayer/backend/controller/internal/ticket"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A scheduler is a Delayer with wheel: slots.
type scheduler struct {
	*withController
	prefix   string
	strategy *slotStrategy
}

var _ delayer.Delayer = (*scheduler)(nil)

// A receipt is what Schedule learns of the message that it publishes.
type receipt struct{ ticket ticket.Ticket }

type receiptKey struct{}

// receiptOf returns the receipt to fill in, nil for an ordinary Publish.
func receiptOf(ctx context.Context) *receipt {
	r, _ := ctx.Value(receiptKey{}).(*receipt)
	return r
}

// errNoTime: without the broker's time there is no ticket.
var errNoTime = errors.New("the broker does not tell its time")

// note fills in where a message goes.
func (r *receipt) note(id string, to seat) error {
	switch {
	case r == nil:
		return nil
	case to.stamp.at == 0:
		return &delayer.Error{Op: "schedule", Backend: Name, Kind: delayer.ErrNotSent, Cause: errNoTime}
	}
	r.ticket = ticket.Ticket{ID: id, Due: to.stamp.at, Since: to.stamp.since, From: to.stamp.at, Read: to.reads.UnixMilli()}
	return nil
}

// Schedule implements [delayer.Delayer].
func (s *scheduler) Schedule(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) (delayer.Ticket, error) {
	now, err := s.time(ctx, "schedule")
	if err != nil {
		return "", err
	}
	// A message without delay waits nowhere. Its ticket is always too late.
	at := now.Earliest.UnixMilli()
	r := &receipt{ticket.Ticket{ID: message.NewEnvelope(time.Now(), 0, "").ID, Due: at, Since: at, From: at, Read: at}}
	err = s.Publish(context.WithValue(ctx, receiptKey{}, r), exchange, key, delay, msg)
	if err != nil && !errors.Is(err, delayer.ErrUnknown) {
		return "", err
	}
	return r.ticket.Write(s.prefix), err
}

// Cancel implements [delayer.Delayer].
func (s *scheduler) Cancel(ctx context.Context, text delayer.Ticket) error {
	const op = "cancel"
	t, err := s.read(op, text)
	if err != nil {
		return err
	}
	return s.change(ctx, op, t, changes.Fate{
		Cancelled: true, Revision: t.Revision, Due: t.Due, Since: t.Since, Last: t.Due, First: t.Since,
	})
}

// Postpone implements [delayer.Delayer].
func (s *scheduler) Postpone(ctx context.Context, text delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	const op = "postpone"
	t, err := s.read(op, text)
	if err != nil {
		return "", err
	}
	if delay < 0 || delay > longest {
		return "", unfit(t, "", "%v is not between 0 and %v", delay, longest)
	}
	now, err := s.inTime(ctx, op, t)
	if err != nil {
		return "", err
	}
	next, err := postponed(t, now, delay)
	if err != nil {
		return "", err
	}
	if next == t {
		return text, nil
	}
	next, unread := seated(s.strategy.blueprint.wheel, t, next, now.Latest)
	fate := changes.Fate{
		Revision: next.Revision, Due: next.Due, Since: next.Since, Last: max(t.Due, next.Due), First: min(t.Since, next.Since),
	}
	if err := s.change(ctx, op, t, fate); err != nil {
		return "", err
	}
	for _, turn := range unread {
		if err := s.strategy.search(ctx, s.strategy.blueprint.wheel.Slot(turn)); err != nil {
			return "", &delayer.Error{
				Op: op, Backend: Name, Object: "message " + t.ID, Kind: delayer.ErrUnknown,
				Cause: fmt.Errorf("it is postponed, but may come late: %s", err.Error()), // not %w: the kind is another
			}
		}
	}
	return next.Write(s.prefix), nil
}

// sameWithin is how much earlier a time may be that counts as the same. What a process knows of the
// broker's time begins with a second, within which [brokertime.Reading].From may go back.
const sameWithin = time.Second

// postponed is the ticket of a message that is postponed, except for where the message is: t itself if
// the time is the same.
func postponed(t ticket.Ticket, now brokertime.Reading, delay time.Duration) (next ticket.Ticket, err error) {
	next = t
	next.Since, next.Due = ceilMillis(now.Latest), ceilMillis(now.From.Add(whole(delay)))
	next.Revision++
	was := dueAt(stamp{at: t.Due, since: t.Since}, now)
	switch earlier := was.Sub(time.UnixMilli(next.Due)); {
	case earlier > sameWithin:
		return next, unfit(t, "to make a message earlier: Cancel, and Schedule it anew",
			"that is %v before the time of the ticket, and a message can only be postponed", earlier)
	case earlier >= 0:
		return t, nil
	case t.Revision == ticket.MaxRevision:
		return next, unfit(t, "", "it was postponed too often")
	}
	return next, nil
}

// unfit is the error for a delay that cannot be.
func unfit(t ticket.Ticket, hint, format string, args ...any) error {
	return &delayer.Error{
		Op: "postpone", Backend: Name, Object: "message " + t.ID, Kind: delayer.ErrOutOfRange,
		Cause: fmt.Errorf(format, args...), Hint: hint,
	}
}

// seated adds to a ticket where its message is: still in the queue for an earlier due time, if that was
// not read yet. The queue for a new one is chosen when the message is read. unread are the turns whose
// slots are to be searched, since they would be read after the message is due.
func seated(w wheel.Wheel, was, next ticket.Ticket, now time.Time) (seated ticket.Ticket, unread []wheel.Turn) {
	from, read := time.UnixMilli(was.From), time.UnixMilli(was.Read)
	if !now.Before(w.LastRead(from)) { // it was moved since
		from = time.UnixMilli(was.Due)
		read = w.Reads(w.Place(w.LastRead(time.UnixMilli(was.From)), from))
	}
	next.From, next.Read = from.UnixMilli(), read.UnixMilli()
	for _, turn := range w.Whereabouts(now, read, from) {
		if time.UnixMilli(next.Due).Before(w.Reads(turn)) {
			unread = append(unread, turn)
		}
	}
	return next, unread
}

// read reads a ticket.
func (s *scheduler) read(op string, text delayer.Ticket) (ticket.Ticket, error) {
	t, err := ticket.Read(text, s.prefix)
	if err != nil {
		return t, &delayer.Error{
			Op: op, Backend: Name, Object: fmt.Sprintf("ticket %.120q", text), Kind: delayer.ErrTicket, Cause: err,
			Hint: "use the text that Schedule or Postpone has returned, with the prefix " + s.prefix,
		}
	}
	return t, nil
}

// time returns the broker's time. After a lost connection it may take a moment to be known.
func (s *scheduler) time(ctx context.Context, op string) (brokertime.Reading, error) {
	const every = 50 * time.Millisecond
	for {
		if r, ok := s.strategy.clock.read(); ok {
			return r, nil
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return brokertime.Reading{}, &delayer.Error{
				Op: op, Backend: Name, Kind: delayer.ErrNotSent, Cause: fmt.Errorf("%w: %w", errNoTime, context.Cause(ctx)),
			}
		}
	}
}

// change writes what is to become of a message. It is accepted if it was confirmed in time by the
// latest that the broker's clock may show after the confirm.
func (s *scheduler) change(ctx context.Context, op string, t ticket.Ticket, fate changes.Fate) error {
	now, err := s.inTime(ctx, op, t)
	if err != nil {
		return err
	}
	e := changes.Entry{Written: now.Earliest.UnixMilli(), Changes: map[string]changes.Fate{t.ID: fate}}
	if err := s.write(ctx, e); err != nil {
		return located(err, op, t)
	}
	if _, err = s.inTime(ctx, op, t); err != nil { // it is stored, and may or may not be known in time
		return &delayer.Error{
			Op: op, Backend: Name, Object: "message " + t.ID, Kind: delayer.ErrUnknown,
			Cause: fmt.Errorf("it is stored, but may be too late: %s", err.Error()), // not %w: the kind is another
		}
	}
	return nil
}

// inTime returns an error if it is too late to change a message.
func (s *scheduler) inTime(ctx context.Context, op string, t ticket.Ticket) (brokertime.Reading, error) {
	now, err := s.time(ctx, op)
	if err != nil {
		return now, err
	}
	due := dueAt(stamp{at: t.Due, since: t.Since}, now)
	if now.Latest.Add(changes.AcceptedBefore).After(due) {
		err = &delayer.Error{
			Op: op, Backend: Name, Object: "message " + t.ID, Kind: delayer.ErrTooLate,
			Cause: fmt.Errorf("it was due %s, and can be changed until %v before that", due.UTC().Format(time.RFC3339Nano), changes.AcceptedBefore),
		}
	}
	return now, err
}

// write writes an entry.
func (s *scheduler) write(ctx context.Context, e changes.Entry) error {
	return writeAgain(ctx, s.Keeper().Doubt, func() error {
		if err := s.Keeper().Ensure(ctx); err != nil {
			return err
		}
		return s.PublishDirect(ctx, names{s.prefix}.changing(e))
	})
}

// writeAgain calls write until that succeeds, or fails for good. What may have been written is written
// again: twice is as good as once. But then an error of a later attempt says nothing of that one.
func writeAgain(ctx context.Context, doubt func(), write func() error) (err error) {
	const attempts = 3
	unknown := false
	for range attempts {
		if err = write(); err == nil {
			return nil
		}
		stored := errors.Is(err, delayer.ErrUnknown) // perhaps
		gone := errors.Is(err, broker.ErrReturned) || errors.Is(err, delayer.ErrUnroutable) || delivery.TopologyLost(err)
		unknown = unknown || stored
		if gone {
			doubt()
		}
		if ctx.Err() != nil || !stored && !gone {
			break
		}
	}
	if unknown && !errors.Is(err, delayer.ErrUnknown) {
		cause := fmt.Errorf("it may be stored; writing it again failed: %s", err.Error()) // not %w: the kind is another
		err = &delayer.Error{Backend: Name, Kind: delayer.ErrUnknown, Cause: cause}
	}
	return err
}

// located says which message an error is about.
func located(err error, op string, t ticket.Ticket) error {
	var known *delayer.Error
	if errors.As(err, &known) {
		known.Op, known.Object = op, "message "+t.ID
	}
	return err
}
