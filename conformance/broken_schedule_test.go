package conformance_test

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

func (b *broken) Schedule(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) (delayer.Ticket, error) {
	publish := func(ctx context.Context) (delayer.Ticket, error) {
		return b.Delayer.Schedule(ctx, exchange, key, delay, msg)
	}
	if b.schedule == nil {
		return publish(ctx)
	}
	return b.schedule(ctx, b.Delayer, publish)
}

func (b *broken) Cancel(ctx context.Context, t delayer.Ticket) error {
	if b.cancel == nil {
		return b.Delayer.Cancel(ctx, t)
	}
	return b.cancel(ctx, b.Delayer, t)
}

func (b *broken) Reschedule(ctx context.Context, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	if b.reschedule == nil {
		return b.Delayer.Reschedule(ctx, t, delay)
	}
	return b.reschedule(ctx, b.Delayer, t, delay)
}

// cancelling returns a Delayer with another Cancel.
func cancelling(f func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error) func(*broker) *broken {
	return func(*broker) *broken { return &broken{cancel: f} }
}

// rescheduling returns a Delayer with another Reschedule.
func rescheduling(f func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error)) func(*broker) *broken {
	return func(*broker) *broken { return &broken{reschedule: f} }
}

// Limits are those of the Delayer, unless they are the fault.
func (b *broken) Limits() delayer.Limits {
	if b.limits == nil {
		return b.Delayer.Limits()
	}
	return b.limits(b.Delayer.Limits())
}

var scheduleFaults = []fault{
	{name: "does not say until when it cancels", cases: []string{"unsupported"}, open: func(_ *broker) *broken {
		return &broken{limits: func(l delayer.Limits) delayer.Limits { l.CancelBefore = 0; return l }}
	}},
	{name: "cancels nothing", cases: []string{"cancel"}, open: cancelling(func(context.Context, delayer.Delayer, delayer.Ticket) error { return nil })},
	{name: "always cancels too late", cases: []string{"cancel"}, open: cancelling(func(context.Context, delayer.Delayer, delayer.Ticket) error {
		return &delayer.Error{Op: "cancel", Kind: delayer.ErrTooLate}
	})},
	{name: "cancels only once", cases: []string{"cancel"}, open: func(*broker) *broken {
		var known sync.Map
		return &broken{cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
			if _, again := known.LoadOrStore(t, true); again {
				return &delayer.Error{Op: "cancel", Kind: delayer.ErrTooLate}
			}
			return s.Cancel(ctx, t)
		}}
	}},
	{name: "cancels the one before too", cases: []string{"cancel"}, open: func(*broker) *broken {
		var mu sync.Mutex
		var all []delayer.Ticket
		return &broken{
			schedule: func(ctx context.Context, _ delayer.Delayer, publish func(context.Context) (delayer.Ticket, error)) (delayer.Ticket, error) {
				t, err := publish(ctx)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, t)
				return t, err
			},
			cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
				mu.Lock()
				defer mu.Unlock()
				if len(all) > 0 {
					_ = s.Cancel(ctx, all[len(all)-1])
				}
				return s.Cancel(ctx, t)
			},
		}
	}},
	{name: "says that it is never too late", cases: []string{"cancel-too-late"}, open: cancelling(func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
		return not(delayer.ErrTooLate)(s.Cancel(ctx, t))
	})},
	{name: "cancels what it says it cannot", cases: []string{"cancel-too-late"}, open: func(b *broker) *broken {
		return &broken{cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
			err := s.Cancel(ctx, t)
			if errors.Is(err, delayer.ErrTooLate) {
				b.forget()
			}
			return err
		}}
	}},
	{name: "reschedules nothing", cases: []string{"reschedule"}, open: rescheduling(func(_ context.Context, _ delayer.Delayer, t delayer.Ticket, _ time.Duration) (delayer.Ticket, error) {
		return t, nil
	})},
	{name: "reschedules to half of the delay", cases: []string{"reschedule"}, open: rescheduling(func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
		return s.Reschedule(ctx, t, delay/2)
	})},
	{name: "loses what it reschedules", cases: []string{"reschedule"}, open: rescheduling(func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, _ time.Duration) (delayer.Ticket, error) {
		return t, s.Cancel(ctx, t)
	})},
	{name: "takes any text for a ticket", cases: []string{"tickets"}, open: func(*broker) *broken {
		return &broken{
			cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
				return not(delayer.ErrTicket)(s.Cancel(ctx, t))
			},
		}
	}},
	{name: "cancels what a text nearly names", cases: []string{"tickets"}, open: func(b *broker) *broken {
		return &broken{cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
			err := s.Cancel(ctx, t)
			if errors.Is(err, delayer.ErrTicket) {
				b.forget()
			}
			return err
		}}
	}},
}
