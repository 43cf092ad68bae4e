package conformance_test

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/conformance/internal/memory"
)

func (b *broken) scheduler() delayer.Scheduler { return b.Delayer.(delayer.Scheduler) }

func (b *broken) Schedule(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) (delayer.Ticket, error) {
	publish := func(ctx context.Context) (delayer.Ticket, error) {
		return b.scheduler().Schedule(ctx, exchange, key, delay, msg)
	}
	if b.schedule == nil {
		return publish(ctx)
	}
	return b.schedule(ctx, b.scheduler(), publish)
}

func (b *broken) Cancel(ctx context.Context, t delayer.Ticket) error {
	if b.cancel == nil {
		return b.scheduler().Cancel(ctx, t)
	}
	return b.cancel(ctx, b.scheduler(), t)
}

func (b *broken) Reschedule(ctx context.Context, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	if b.reschedule == nil {
		return b.scheduler().Reschedule(ctx, t, delay)
	}
	return b.reschedule(ctx, b.scheduler(), t, delay)
}

// cancelling makes a fault of Cancel.
func cancelling(f func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket) error) func(*memory.Broker) *broken {
	return func(*memory.Broker) *broken { return &broken{cancel: f} }
}

// rescheduling makes a fault of Reschedule.
func rescheduling(f func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error)) func(*memory.Broker) *broken {
	return func(*memory.Broker) *broken { return &broken{reschedule: f} }
}

// Limits are those of the Delayer, unless they are the fault.
func (b *broken) Limits() delayer.Limits {
	if b.limits == nil {
		return b.Delayer.Limits()
	}
	return b.limits(b.Delayer.Limits())
}

var scheduleFaults = []fault{
	{name: "does not say until when it cancels", cases: []string{"scheduler"}, open: func(_ *memory.Broker) *broken {
		return &broken{limits: func(l delayer.Limits) delayer.Limits { l.CancelBefore = 0; return l }}
	}},
	{name: "cancels nothing", cases: []string{"cancel"}, open: cancelling(func(context.Context, delayer.Scheduler, delayer.Ticket) error { return nil })},
	{name: "always cancels too late", cases: []string{"cancel"}, open: cancelling(func(context.Context, delayer.Scheduler, delayer.Ticket) error {
		return &delayer.Error{Op: "cancel", Kind: delayer.ErrTooLate}
	})},
	{name: "cancels only once", cases: []string{"cancel"}, open: func(*memory.Broker) *broken {
		var known sync.Map
		return &broken{cancel: func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket) error {
			if _, again := known.LoadOrStore(t, true); again {
				return &delayer.Error{Op: "cancel", Kind: delayer.ErrTooLate}
			}
			return s.Cancel(ctx, t)
		}}
	}},
	{name: "cancels the one before too", cases: []string{"cancel"}, open: func(*memory.Broker) *broken {
		var mu sync.Mutex
		var all []delayer.Ticket
		return &broken{
			schedule: func(ctx context.Context, _ delayer.Scheduler, publish func(context.Context) (delayer.Ticket, error)) (delayer.Ticket, error) {
				t, err := publish(ctx)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, t)
				return t, err
			},
			cancel: func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket) error {
				mu.Lock()
				defer mu.Unlock()
				if len(all) > 0 {
					_ = s.Cancel(ctx, all[len(all)-1])
				}
				return s.Cancel(ctx, t)
			},
		}
	}},
	{name: "says that it is never too late", cases: []string{"cancel-too-late"}, open: cancelling(func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket) error {
		return not(delayer.ErrTooLate)(s.Cancel(ctx, t))
	})},
	{name: "cancels what it says it cannot", cases: []string{"cancel-too-late"}, open: func(b *memory.Broker) *broken {
		return &broken{cancel: func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket) error {
			err := s.Cancel(ctx, t)
			if errors.Is(err, delayer.ErrTooLate) {
				b.Forget()
			}
			return err
		}}
	}},
	{name: "reschedules nothing", cases: []string{"reschedule"}, open: rescheduling(func(_ context.Context, _ delayer.Scheduler, t delayer.Ticket, _ time.Duration) (delayer.Ticket, error) {
		return t, nil
	})},
	{name: "reschedules to half of the delay", cases: []string{"reschedule"}, open: rescheduling(func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
		return s.Reschedule(ctx, t, delay/2)
	})},
	{name: "loses what it reschedules", cases: []string{"reschedule"}, open: rescheduling(func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket, _ time.Duration) (delayer.Ticket, error) {
		return t, s.Cancel(ctx, t)
	})},
	{name: "takes any text for a ticket", cases: []string{"tickets"}, open: func(*memory.Broker) *broken {
		return &broken{
			cancel: func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket) error {
				return not(delayer.ErrTicket)(s.Cancel(ctx, t))
			},
		}
	}},
	{name: "cancels what a text nearly names", cases: []string{"tickets"}, open: func(b *memory.Broker) *broken {
		return &broken{cancel: func(ctx context.Context, s delayer.Scheduler, t delayer.Ticket) error {
			err := s.Cancel(ctx, t)
			if errors.Is(err, delayer.ErrTicket) {
				b.Forget()
			}
			return err
		}}
	}},
}
