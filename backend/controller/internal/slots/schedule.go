package slots

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A receipt is what Schedule learns of the message that it publishes.
type receipt struct {
	due       brokertime.Due // the user's; 0: it has a delay
	ticket    ticket
	submitted func() // called once what is submitted from now on comes after the message
}

type receiptKey struct{}

// errNoTime: without the broker's time there is no ticket.
var errNoTime = errors.New("the broker does not tell its time")

// Schedule implements [delayer.Delayer].
func (d *Delayer) Schedule(ctx context.Context, m delayer.Message) (delayer.Ticket, error) {
	return d.schedule(ctx, m, func() {})
}

// ScheduleBatch schedules messages, and returns a ticket and an error for each: what Schedule would
// return. It submits them in their order, and waits for all confirms together.
func (d *Delayer) ScheduleBatch(ctx context.Context, messages []delayer.Message) ([]delayer.Ticket, []error) {
	tickets, errs := make([]delayer.Ticket, len(messages)), make([]error, len(messages))
	var all sync.WaitGroup
	for i, m := range messages {
		next := make(chan struct{})
		submitted := sync.OnceFunc(func() { close(next) })
		all.Go(func() {
			defer submitted()
			tickets[i], errs[i] = d.schedule(ctx, m, submitted)
		})
		<-next
	}
	all.Wait()
	return tickets, errs
}

func (d *Delayer) schedule(ctx context.Context, m delayer.Message, submitted func()) (delayer.Ticket, error) {
	const op = "schedule"
	due, err := message.ValidateScheduled(&m)
	if err != nil {
		return "", &delayer.Error{Op: op, Backend: backend, Kind: delayer.ErrInvalid, Cause: err}
	}
	now, err := d.time(ctx, op)
	if err != nil {
		return "", err
	}
	// A message without delay waits nowhere. Its ticket is always too late.
	r := &receipt{ticket: ticket{id: m.ID, due: brokertime.Due(now.Clock.Earliest.UnixMilli())}, submitted: submitted}
	if m.ID == "" {
		// Who has seen ids of other messages cannot guess this one: a ticket is known to whom it is
		// given.
		const length = 20 // of 5 bits; ids may have 23
		r.ticket.id = rand.Text()[:length]
	}
	if !due.IsZero() { // one whose time has passed goes through the log too, where it meets its copies
		r.due = brokertime.Due(due.UnixMilli())
		m.Delay = max(due.Sub(now.Clock.Latest), time.Millisecond)
	}
	as := message.Envelope{ID: r.ticket.id, Due: due}
	err = d.PublishAs(context.WithValue(ctx, receiptKey{}, r), as, m.Exchange, m.Key, m.Delay, m.Publishing)
	if err != nil && !errors.Is(err, delayer.ErrUnknown) {
		return "", err
	}
	return d.wheel.tickets.write(r.ticket), err
}

// Ticket implements [delayer.Delayer].
func (d *Delayer) Ticket(id string, due time.Time) (delayer.Ticket, error) {
	due, err := message.DueAt(due)
	if err == nil {
		err = message.ValidateID(id)
	}
	if err != nil {
		return "", &delayer.Error{Op: "ticket", Backend: backend, Kind: delayer.ErrInvalid, Cause: err}
	}
	return d.wheel.tickets.write(ticket{id: id, due: brokertime.Due(due.UnixMilli())}), nil
}

// Cancel implements [delayer.Delayer].
func (d *Delayer) Cancel(ctx context.Context, text delayer.Ticket) error {
	const op = "cancel"
	t, err := d.wheel.read(op, text)
	if err != nil {
		return err
	}
	_, err = d.change(ctx, op, t, func(leader.Now) (brokertime.Due, error) { return 0, nil })
	return err
}

// Postpone implements [delayer.Delayer].
func (d *Delayer) Postpone(ctx context.Context, text delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	const op = "postpone"
	t, err := d.wheel.read(op, text)
	if err != nil {
		return "", err
	}
	if delay < 0 || delay > settle.Longest {
		return "", d.fail(op, t, delayer.ErrOutOfRange, fmt.Errorf("%v is not between 0 and %v", delay, settle.Longest))
	}
	began := time.Now()
	next, err := d.change(ctx, op, t, func(now leader.Now) (brokertime.Due, error) {
		left := until(began.Add(delay), now)
		if latest, _, _ := leader.Enter(now, left+sameWithin); latest >= t.due {
			next, _, _ := leader.Enter(now, left)
			// By the clock of who has published it, it may be due a little before t.due.
			return max(next, t.due+1), nil
		}
		earlier := d.fail(op, t, delayer.ErrOutOfRange, errors.New("that is before the time of the ticket, and a message can only be postponed"))
		earlier.Hint = "to make a message earlier: Cancel, and Schedule it anew"
		return t.due, earlier
	})
	if err != nil {
		return "", err
	}
	return d.wheel.tickets.write(ticket{id: t.id, due: next}), nil
}

// sameWithin is how much earlier a time may be that counts as the same. What a process knows of the
// broker's time begins with a second, within which [brokertime.Reading].Latest may go back.
const sameWithin = time.Second

func (d *Delayer) fail(op string, t ticket, kind, cause error) *delayer.Error {
	return &delayer.Error{Op: op, Backend: backend, Object: "message " + url.PathEscape(t.id), Kind: kind, Cause: cause}
}

// ReadTicket returns the id and the due time that a ticket names, by the broker's clock. It asks no
// broker. Whether the message still waits, and where it goes, a ticket does not tell. The error is
// ErrTicket.
func (d *Delayer) ReadTicket(text delayer.Ticket) (id string, due time.Time, err error) {
	t, err := d.wheel.read("read", text)
	if err != nil {
		return "", time.Time{}, err
	}
	return t.id, t.due.Time().UTC(), nil
}

func (w *Wheel) read(op string, text delayer.Ticket) (ticket, error) {
	t, err := w.tickets.read(text)
	if err != nil {
		return t, &delayer.Error{
			Op: op, Backend: backend, Object: fmt.Sprintf("ticket %.12q", text), Kind: delayer.ErrTicket, Cause: err,
			Hint: "use the text that Schedule or Postpone has returned, on the same vhost and with the prefix " + w.prefix,
		}
	}
	return t, nil
}

// time returns the moment with the broker's time. After a lost connection it may take a while to be
// known.
func (d *Delayer) time(ctx context.Context, op string) (leader.Now, error) {
	now := d.clock.wait(ctx)
	switch {
	case now.Known:
		return now, nil
	case d.clock.asking.Err() != nil:
		return now, &delayer.Error{Op: op, Backend: backend, Kind: delayer.ErrClosed}
	}
	return now, &delayer.Error{Op: op, Backend: backend, Kind: delayer.ErrNotSent, Cause: fmt.Errorf("%w: %w", errNoTime, context.Cause(ctx))}
}

// mostAttempts is how often a change is written whose fate is not known: twice is as good as once.
const mostAttempts = 3

// A choice is the due time that a message is to have, or 0 for none.
type choice func(leader.Now) (brokertime.Due, error)

// change writes what is to become of a message, and returns that once it is certain that the change
// is known before the message is decided about.
func (d *Delayer) change(ctx context.Context, op string, t ticket, to choice) (brokertime.Due, error) {
	stored := false // perhaps
	for attempt := 1; ; attempt++ {
		next, err := d.changeOnce(ctx, op, t, to)
		unknown, lost := errors.Is(err, delayer.ErrUnknown), errors.Is(err, broker.ErrReturned) || delivery.TopologyLost(err)
		stored = stored || unknown
		if lost {
			d.Keeper().Doubt()
		}
		if (unknown || lost) && attempt < mostAttempts && ctx.Err() == nil {
			continue
		}
		if err != nil && stored && !unknown {
			err = d.fail(op, t, delayer.ErrUnknown, fmt.Errorf("it may be stored: %s", err.Error())) // not %w: the kind is another
		}
		return next, d.named(op, t, err)
	}
}

func (d *Delayer) changeOnce(ctx context.Context, op string, t ticket, to choice) (next brokertime.Due, err error) {
	now, err := d.time(ctx, op)
	if err == nil && !leader.InTime(now, t.due) {
		err = d.fail(op, t, delayer.ErrTooLate, fmt.Errorf("it can be changed until %v before it is due", leader.AcceptedBefore))
	}
	if err == nil {
		next, err = to(now)
	}
	if err == nil {
		err = d.Keeper().Ensure(ctx)
	}
	if err == nil {
		change := bundle.Record{Kind: bundle.Cancel, ID: t.id, Due: t.due}
		if next != 0 {
			change.Kind, change.Next = bundle.Postpone, next
		}
		err = d.log.publish(ctx, change)
	}
	if err == nil && !leader.InTime(d.clock.now(), t.due) {
		err = d.fail(op, t, delayer.ErrUnknown, errors.New("the broker took long to confirm it, and it may come too late"))
	}
	return next, err
}

// named adds the message to an error that says not what is to be fixed.
func (d *Delayer) named(op string, t ticket, err error) error {
	var known *delayer.Error
	if errors.As(err, &known) && known.Object == "" {
		own := *known
		own.Op, own.Object = op, "message "+t.id
		return &own
	}
	return err
}
