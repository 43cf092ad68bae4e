package slots

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
)

// A receipt is what Schedule learns of the message that it publishes.
type receipt struct{ ticket ticket }

type receiptKey struct{}

// errNoTime: without the broker's time there is no ticket.
var errNoTime = errors.New("the broker does not tell its time")

// Schedule implements [delayer.Delayer].
func (d *Delayer) Schedule(ctx context.Context, m delayer.Message) (delayer.Ticket, error) {
	if m.ID != "" || !m.Due.IsZero() {
		return "", &delayer.Error{Op: "schedule", Backend: d.backend, Kind: errors.ErrUnsupported, Cause: errors.New("there are no ids yet")}
	}
	now, err := d.time(ctx, "schedule")
	if err != nil {
		return "", err
	}
	// A message without delay waits nowhere. Its ticket is always too late.
	at := now.Clock.Earliest.UnixMilli()
	// Who has seen ids of other messages cannot guess this one: a ticket is known to whom it is
	// given.
	const length = 20 // of 5 bits; ids may have 23
	r := &receipt{ticket{id: rand.Text()[:length], due: brokertime.Due(at)}}
	err = d.PublishAs(context.WithValue(ctx, receiptKey{}, r), r.ticket.id, m.Exchange, m.Key, m.Delay, m.Publishing)
	if err != nil && !errors.Is(err, delayer.ErrUnknown) {
		return "", err
	}
	return d.tickets.write(r.ticket), err
}

// Cancel implements [delayer.Delayer].
func (d *Delayer) Cancel(ctx context.Context, text delayer.Ticket) error {
	const op = "cancel"
	t, err := d.read(op, text)
	if err != nil {
		return err
	}
	_, err = d.change(ctx, op, t, func(wheel.Now) (brokertime.Due, error) { return 0, nil })
	return err
}

// Postpone implements [delayer.Delayer].
func (d *Delayer) Postpone(ctx context.Context, text delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	const op = "postpone"
	t, err := d.read(op, text)
	if err != nil {
		return "", err
	}
	if delay < 0 || delay > stamp.Longest {
		return "", d.fail(op, t, delayer.ErrOutOfRange, fmt.Errorf("%v is not between 0 and %v", delay, stamp.Longest))
	}
	began := time.Now()
	next, err := d.change(ctx, op, t, func(now wheel.Now) (brokertime.Due, error) {
		left, _ := until(began.Add(stamp.Whole(delay)), now)
		if next, later := wheel.PostponedTo(now, t.due, left); later {
			return next, nil
		}
		if _, same := wheel.PostponedTo(now, t.due, left+sameWithin); same {
			return t.due, nil // it is written nevertheless: by the clock of who has published it, it may be due a little earlier
		}
		earlier := d.fail(op, t, delayer.ErrOutOfRange, errors.New("that is before the time of the ticket, and a message can only be postponed"))
		earlier.Hint = "to make a message earlier: Cancel, and Schedule it anew"
		return t.due, earlier
	})
	if err != nil {
		return "", err
	}
	return d.tickets.write(ticket{id: t.id, due: next}), nil
}

// sameWithin is how much earlier a time may be that counts as the same. What a process knows of the
// broker's time begins with a second, within which [brokertime.Reading].From may go back.
const sameWithin = time.Second

func (d *Delayer) fail(op string, t ticket, kind, cause error) *delayer.Error {
	return &delayer.Error{Op: op, Backend: d.backend, Object: "message " + t.id, Kind: kind, Cause: cause}
}

func (d *Delayer) read(op string, text delayer.Ticket) (ticket, error) {
	t, err := d.tickets.read(text)
	if err != nil {
		return t, d.wheel.notOurs(op, d.backend, text, err)
	}
	return t, nil
}

func (w *Wheel) notOurs(op, backend string, text delayer.Ticket, why error) error {
	return &delayer.Error{
		Op: op, Backend: backend, Object: fmt.Sprintf("ticket %.120q", text), Kind: delayer.ErrTicket, Cause: why,
		Hint: "use the text that Schedule or Postpone has returned, on the same vhost and with the prefix " + w.names.prefix,
	}
}

// ReadTicket returns the id and the due time that a ticket names. It asks no broker. The error is
// ErrTicket.
func (w *Wheel) ReadTicket(vhost, backend string, text delayer.Ticket) (id string, due time.Time, err error) {
	t, err := newTickets(vhost, w.names.prefix, w.wheel.String()).read(text)
	if err != nil {
		return "", time.Time{}, w.notOurs("read", backend, text, err)
	}
	return t.id, t.due.Time().UTC(), nil
}

// time returns the moment with the broker's time. After a lost connection it may take a while to be
// known.
func (d *Delayer) time(ctx context.Context, op string) (wheel.Now, error) {
	now := d.clock.wait(ctx)
	switch {
	case now.Known:
		return now, nil
	case d.clock.isClosed():
		return now, &delayer.Error{Op: op, Backend: d.backend, Kind: delayer.ErrClosed}
	}
	return now, &delayer.Error{Op: op, Backend: d.backend, Kind: delayer.ErrNotSent, Cause: fmt.Errorf("%w: %w", errNoTime, context.Cause(ctx))}
}

// change writes what is to become of a message: the due time that to returns, or none. It returns
// that once it is certain that the change is known before the message is decided about.
func (d *Delayer) change(ctx context.Context, op string, t ticket, to func(wheel.Now) (brokertime.Due, error)) (next brokertime.Due, err error) {
	for request := d.wheel.wheel.Request(t.due); ; {
		next, err = d.attempt(ctx, op, t, request, to)
		outcome, forGood := d.outcome(err)
		fate, again := request.Ended(d.clock.now(), outcome, forGood)
		if !again || ctx.Err() != nil {
			return next, d.result(op, t, fate, err)
		}
	}
}

func (d *Delayer) attempt(ctx context.Context, op string, t ticket, request *wheel.Request, dueNext func(wheel.Now) (brokertime.Due, error)) (next brokertime.Due, err error) {
	now, err := d.time(ctx, op)
	if err != nil {
		return next, err
	}
	to, within, inTime := request.Begin(now)
	if !inTime {
		return next, d.fail(op, t, delayer.ErrTooLate, fmt.Errorf("it can be changed until %v before it is due", wheel.AcceptedBefore))
	}
	if next, err = dueNext(now); err != nil {
		return next, err
	}
	return next, d.write(ctx, to, time.Now().Add(within), changeText(t.id, t.due, next))
}

// outcome is what an error of attempt means. What could not be written for good is not tried again.
func (d *Delayer) outcome(err error) (o wheel.Outcome, forGood bool) {
	gone := errors.Is(err, broker.ErrReturned) || errors.Is(err, delayer.ErrUnroutable) || delivery.TopologyLost(err)
	if gone {
		d.Keeper().Doubt()
	}
	switch {
	case err == nil:
		return wheel.Accepted, false
	case errors.Is(err, delayer.ErrUnknown):
		return wheel.Unknown, false
	}
	return wheel.Refused, !gone && !errors.Is(err, broker.ErrStale)
}

// result is the error of a request; err is that of its last attempt.
func (d *Delayer) result(op string, t ticket, fate wheel.Fate, err error) error {
	var known *delayer.Error
	switch {
	case fate == wheel.Certain:
		return nil
	case err == nil:
		return d.fail(op, t, delayer.ErrUnknown, errors.New("it is stored, but may come too late: the broker took long to confirm it"))
	case fate == wheel.Uncertain && !errors.Is(err, delayer.ErrUnknown): // not %w: the kind is another
		return d.fail(op, t, delayer.ErrUnknown, fmt.Errorf("it may be stored; writing it again failed: %s", err.Error()))
	case errors.As(err, &known) && known.Object == "": // else it names what is to be mended
		own := *known
		own.Op, own.Object = op, "message "+t.id
		return &own
	}
	return err
}

// write publishes a change to the slot in which it is looked for.
func (d *Delayer) write(ctx context.Context, to wheel.Turn, before time.Time, text string) error {
	if err := d.Keeper().Ensure(ctx); err != nil {
		return err
	}
	names := d.wheel.names
	return d.PublishDirect(ctx, broker.Publishing{
		Exchange: names.enterSlots(), Key: names.slotKey(d.wheel.wheel.Slot(to)), Before: before,
		Sole: true, Message: small(text),
	})
}
