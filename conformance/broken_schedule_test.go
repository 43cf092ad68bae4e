package conformance_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

func (b *broken) Postpone(ctx context.Context, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	if b.postpone == nil {
		return b.Delayer.Postpone(ctx, t, delay)
	}
	return b.postpone(ctx, b.Delayer, t, delay)
}

// cancelling returns a Delayer with another Cancel.
func cancelling(f func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error) func(*broker) *broken {
	return func(*broker) *broken { return &broken{cancel: f} }
}

// postponing returns a Delayer with another Postpone.
func postponing(f func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error)) func(*broker) *broken {
	return func(*broker) *broken { return &broken{postpone: f} }
}

// A lineage knows which ticket was made of which.
type lineage struct{ next sync.Map }

func (l *lineage) postpone(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	next, err := s.Postpone(ctx, t, delay)
	if err == nil && next != t {
		l.next.Store(t, next)
	}
	return next, err
}

// newest is the newest ticket of what t names.
func (l *lineage) newest(t delayer.Ticket) delayer.Ticket {
	for {
		next, ok := l.next.Load(t)
		if !ok {
			return t
		}
		t = next.(delayer.Ticket)
	}
}

// A writer can schedule a message again.
type writer struct{ sent sync.Map }

func (w *writer) schedule(ctx context.Context, _ delayer.Delayer, publish func(context.Context) (delayer.Ticket, error)) (delayer.Ticket, error) {
	t, err := publish(ctx)
	w.sent.Store(t, publish)
	return t, err
}

func (w *writer) again(ctx context.Context, t delayer.Ticket) (delayer.Ticket, error) {
	publish, _ := w.sent.Load(t)
	return publish.(func(context.Context) (delayer.Ticket, error))(ctx)
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
	{name: "postpones nothing", cases: []string{"postpone", "postpone-older-ticket", "postpone-one-ticket-twice", "debounce"}, open: postponing(func(_ context.Context, _ delayer.Delayer, t delayer.Ticket, _ time.Duration) (delayer.Ticket, error) {
		return t, nil
	})},
	{name: "postpones by nine tenths of the delay", cases: []string{"postpone"}, open: postponing(func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
		return s.Postpone(ctx, t, delay*9/10)
	})},
	{name: "loses what it postpones", cases: []string{"postpone"}, open: postponing(func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, _ time.Duration) (delayer.Ticket, error) {
		return t, s.Cancel(ctx, t)
	})},
	{name: "says that nothing is earlier", cases: []string{"postpone-earlier"}, open: postponing(func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
		next, err := s.Postpone(ctx, t, delay)
		return next, not(delayer.ErrOutOfRange)(err)
	})},
	{name: "makes earlier what it says it does not", cases: []string{"postpone-earlier"}, open: func(b *broker) *broken {
		return &broken{postpone: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
			next, err := s.Postpone(ctx, t, delay)
			if errors.Is(err, delayer.ErrOutOfRange) {
				b.hasten()
			}
			return next, err
		}}
	}},
	{name: "says that every ticket is too late", cases: []string{"postpone-earlier"}, open: postponing(func(context.Context, delayer.Delayer, delayer.Ticket, time.Duration) (delayer.Ticket, error) {
		return "", &delayer.Error{Op: "postpone", Kind: delayer.ErrTooLate}
	})},
	{name: "cancels by an older ticket what is due later", cases: []string{"postpone-older-ticket"}, open: func(*broker) *broken {
		var l lineage
		return &broken{postpone: l.postpone, cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
			return s.Cancel(ctx, l.newest(t))
		}}
	}},
	{name: "postpones by an older ticket what is due later", cases: []string{"postpone-older-ticket"}, open: func(*broker) *broken {
		var l lineage
		return &broken{postpone: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
			return l.postpone(ctx, s, l.newest(t), delay)
		}}
	}},
	{name: "loses what an older ticket names", cases: []string{"postpone-older-ticket"}, open: func(*broker) *broken {
		var l lineage
		return &broken{postpone: l.postpone, cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
			err := s.Cancel(ctx, t)
			if errors.Is(err, delayer.ErrTooLate) {
				_ = s.Cancel(ctx, l.newest(t))
			}
			return err
		}}
	}},
	{name: "cancels nothing by an older ticket", cases: []string{"postpone", "postpone-cancelled"}, open: func(*broker) *broken {
		var l lineage
		return &broken{postpone: l.postpone, cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
			if l.newest(t) != t {
				return nil
			}
			return s.Cancel(ctx, t)
		}}
	}},
	{name: "postpones once by a ticket", cases: []string{"postpone-one-ticket-twice"}, open: func(*broker) *broken {
		var l lineage
		return &broken{postpone: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
			if next := l.newest(t); next != t {
				return next, nil
			}
			return l.postpone(ctx, s, t, delay)
		}}
	}},
	{name: "postpones by the last of two calls with a ticket", cases: []string{"postpone-one-ticket-twice"}, open: func(*broker) *broken {
		var l lineage
		var w writer
		return &broken{
			schedule: w.schedule,
			cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
				return s.Cancel(ctx, l.newest(t))
			},
			postpone: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
				was := l.newest(t)
				if was == t {
					return l.postpone(ctx, s, t, delay)
				}
				_ = s.Cancel(ctx, was)
				fresh, err := w.again(ctx, t)
				if err != nil {
					return "", err
				}
				l.next.Store(was, fresh)
				return l.postpone(ctx, s, fresh, delay)
			},
		}
	}},
	{name: "cancels by the last ticket of two alone", cases: []string{"postpone-one-ticket-twice"}, open: func(*broker) *broken {
		var parents, last sync.Map
		return &broken{
			postpone: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
				next, err := s.Postpone(ctx, t, delay)
				parents.Store(next, t)
				last.Store(t, next)
				return next, err
			},
			cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
				if parent, ok := parents.Load(t); ok {
					if next, _ := last.Load(parent); next != t {
						return nil
					}
				}
				return s.Cancel(ctx, t)
			},
		}
	}},
	{name: "refuses to postpone what is cancelled", cases: []string{"postpone-cancelled"}, open: func(*broker) *broken {
		var gone sync.Map
		return &broken{
			cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
				gone.Store(t, true)
				return s.Cancel(ctx, t)
			},
			postpone: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
				if _, ok := gone.Load(t); ok {
					return "", &delayer.Error{Op: "postpone", Kind: delayer.ErrTooLate}
				}
				return s.Postpone(ctx, t, delay)
			},
		}
	}},
	{name: "sends again what was cancelled and is postponed", cases: []string{"postpone-cancelled"}, open: func(*broker) *broken {
		var w writer
		var gone sync.Map
		return &broken{
			schedule: w.schedule,
			cancel: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket) error {
				gone.Store(t, true)
				return s.Cancel(ctx, t)
			},
			postpone: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
				if _, ok := gone.Load(t); ok {
					return w.again(ctx, t)
				}
				return s.Postpone(ctx, t, delay)
			},
		}
	}},
	{name: "postpones a hundred times at most", cases: []string{"debounce"}, open: func(*broker) *broken {
		var times atomic.Int64
		return &broken{postpone: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
			const most = 100
			if times.Add(1) > most {
				return "", &delayer.Error{Op: "postpone", Kind: delayer.ErrOutOfRange}
			}
			return s.Postpone(ctx, t, delay)
		}}
	}},
	{name: "forgets what is postponed after a hundred times", cases: []string{"debounce"}, open: func(*broker) *broken {
		var times atomic.Int64
		return &broken{postpone: func(ctx context.Context, s delayer.Delayer, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
			const most = 100
			if times.Add(1) > most {
				return t, nil
			}
			return s.Postpone(ctx, t, delay)
		}}
	}},
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
