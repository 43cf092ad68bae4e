package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
)

type history struct {
	broker    *broker
	latest    atomic.Pointer[delayer.Ticket] // of Schedule
	next      sync.Map                       // the ticket that Postpone made last of a ticket
	parent    sync.Map                       // the ticket that Postpone made a ticket of
	gone      sync.Map                       // tickets that Cancel was given
	postponed atomic.Int64                   // calls that a fault counts
}

// newest is the newest ticket of what t names.
func (h *history) newest(t delayer.Ticket) delayer.Ticket {
	for {
		next, ok := h.next.Load(t)
		if !ok {
			return t
		}
		t = next.(delayer.Ticket)
	}
}

type change struct {
	*history
	ctx    context.Context
	on     delayer.Delayer
	ticket delayer.Ticket
	delay  time.Duration
	gone   bool // Cancel was given the ticket before
}

// of is the change of what another ticket names.
func (c change) of(t delayer.Ticket) change {
	c.ticket = t
	return c
}

func (c change) cancel() error { return c.on.Cancel(c.ctx, c.ticket) }

func (c change) postpone() (delayer.Ticket, error) {
	next, err := c.on.Postpone(c.ctx, c.ticket, c.delay)
	if err == nil && next != c.ticket {
		c.next.Store(c.ticket, next)
		c.parent.Store(next, c.ticket)
	}
	return next, err
}

func (b *broken) Schedule(ctx context.Context, m delayer.Message) (delayer.Ticket, error) {
	if b.schedule != nil {
		b.schedule(&m)
	}
	t, err := b.Delayer.Schedule(ctx, m)
	b.latest.Store(&t)
	return t, err
}

func (b *broken) Cancel(ctx context.Context, t delayer.Ticket) error {
	c := change{history: &b.history, ctx: ctx, on: b.Delayer, ticket: t}
	_, c.gone = b.gone.LoadOrStore(t, true)
	if b.cancel == nil {
		return c.cancel()
	}
	return b.cancel(c)
}

func (b *broken) Postpone(ctx context.Context, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	c := change{history: &b.history, ctx: ctx, on: b.Delayer, ticket: t, delay: delay}
	_, c.gone = b.gone.Load(t)
	if b.postpone == nil {
		return c.postpone()
	}
	return b.postpone(c)
}

func scheduling(schedule func(m *delayer.Message)) func(*broker) *broken {
	return func(b *broker) *broken { return &broken{history: history{broker: b}, schedule: schedule} }
}

func cancelling(cancel func(c change) error) func(*broker) *broken {
	return func(b *broker) *broken { return &broken{history: history{broker: b}, cancel: cancel} }
}

func postponing(postpone func(c change) (delayer.Ticket, error)) func(*broker) *broken {
	return func(b *broker) *broken { return &broken{history: history{broker: b}, postpone: postpone} }
}

func cancelNewest(c change) error { return c.of(c.newest(c.ticket)).cancel() }

func tooLate(op string) error { return &delayer.Error{Op: op, Kind: delayer.ErrTooLate} }

var scheduleFaults = []fault{
	{name: "does not say until when it cancels", cases: []string{"unsupported"}, open: func(*broker) *broken {
		return &broken{limits: func(l *delayer.Limits) { l.CancelBefore = 0 }}
	}},
	{name: "cancels nothing", cases: []string{"cancel"}, open: cancelling(func(change) error { return nil })},
	{name: "always cancels too late", cases: []string{"cancel"}, open: cancelling(func(change) error { return tooLate("cancel") })},
	{name: "cancels only once", cases: []string{"cancel"}, open: cancelling(func(c change) error {
		if c.gone {
			return tooLate("cancel")
		}
		return c.cancel()
	})},
	{name: "cancels the one before too", cases: []string{"cancel"}, open: cancelling(func(c change) error {
		if latest := c.latest.Load(); latest != nil {
			_ = c.of(*latest).cancel()
		}
		return c.cancel()
	})},
	{name: "says that it is never too late", cases: []string{"cancel-too-late"}, open: cancelling(func(c change) error {
		return not(delayer.ErrTooLate)(c.cancel())
	})},
	{name: "cancels what it says it cannot", cases: []string{"cancel-too-late"}, open: cancelling(func(c change) error {
		err := c.cancel()
		if errors.Is(err, delayer.ErrTooLate) {
			c.broker.forget()
		}
		return err
	})},
	{name: "postpones nothing", cases: []string{"postpone", "postpone-older-ticket", "postpone-one-ticket-twice", "debounce"}, open: postponing(func(c change) (delayer.Ticket, error) {
		return c.ticket, nil
	})},
	{name: "postpones by nine tenths of the delay", cases: []string{"postpone"}, open: postponing(func(c change) (delayer.Ticket, error) {
		c.delay = c.delay * 9 / 10
		return c.postpone()
	})},
	{name: "loses what it postpones", cases: []string{"postpone"}, open: postponing(func(c change) (delayer.Ticket, error) {
		return c.ticket, c.cancel()
	})},
	{name: "says that nothing is earlier", cases: []string{"postpone-earlier"}, open: postponing(func(c change) (delayer.Ticket, error) {
		next, err := c.postpone()
		return next, not(delayer.ErrOutOfRange)(err)
	})},
	{name: "makes earlier what it says it does not", cases: []string{"postpone-earlier"}, open: postponing(func(c change) (delayer.Ticket, error) {
		next, err := c.postpone()
		if errors.Is(err, delayer.ErrOutOfRange) {
			c.broker.hasten()
		}
		return next, err
	})},
	{name: "says that every ticket is too late", cases: []string{"postpone-earlier"}, open: postponing(func(change) (delayer.Ticket, error) {
		return "", tooLate("postpone")
	})},
	{name: "cancels by an older ticket what is due later", cases: []string{"postpone-older-ticket"}, open: cancelling(cancelNewest)},
	{name: "postpones by an older ticket what is due later", cases: []string{"postpone-older-ticket"}, open: postponing(func(c change) (delayer.Ticket, error) {
		return c.of(c.newest(c.ticket)).postpone()
	})},
	{name: "loses what an older ticket names", cases: []string{"postpone-older-ticket"}, open: cancelling(func(c change) error {
		err := c.cancel()
		if errors.Is(err, delayer.ErrTooLate) {
			_ = cancelNewest(c)
		}
		return err
	})},
	{name: "cancels nothing by an older ticket", cases: []string{"postpone", "postpone-cancelled"}, open: cancelling(func(c change) error {
		if c.newest(c.ticket) != c.ticket {
			return nil
		}
		return c.cancel()
	})},
	{name: "postpones once by a ticket", cases: []string{"postpone-one-ticket-twice"}, open: postponing(func(c change) (delayer.Ticket, error) {
		if next := c.newest(c.ticket); next != c.ticket {
			return next, nil
		}
		return c.postpone()
	})},
	{name: "cancels by the last ticket of two alone", cases: []string{"postpone-one-ticket-twice"}, open: cancelling(func(c change) error {
		if parent, ok := c.parent.Load(c.ticket); ok {
			if next, _ := c.next.Load(parent); next != c.ticket {
				return nil
			}
		}
		return c.cancel()
	})},
	{name: "refuses to postpone what is cancelled", cases: []string{"postpone-cancelled"}, open: postponing(func(c change) (delayer.Ticket, error) {
		if c.gone {
			return "", tooLate("postpone")
		}
		return c.postpone()
	})},
	{name: "forgets what is postponed after a hundred times", cases: []string{"debounce"}, open: postponing(func(c change) (delayer.Ticket, error) {
		if c.postponed.Add(1) > 100 {
			return c.ticket, nil
		}
		return c.postpone()
	})},
	{name: "forgets the id", cases: []string{"ids", "ids-refused"}, open: scheduling(func(m *delayer.Message) { m.ID = "" })},
	{name: "takes the due time for a delay", cases: []string{"ids"}, open: scheduling(func(m *delayer.Message) {
		if m.Delay == 0 && !m.Due.IsZero() {
			m.Delay, m.Due = max(0, time.Until(m.Due)), time.Time{}
		}
	})},
	{name: "ignores ID and Due of a batch", cases: []string{"unsupported"}, open: together(func(c batchCall) []error {
		plain := slices.Clone(c.messages)
		for i := range plain {
			plain[i].ID, plain[i].Due = "", time.Time{}
		}
		return c.each(plain)
	})},
	{name: "takes any text for a ticket", cases: []string{"tickets"}, open: cancelling(func(c change) error {
		return not(delayer.ErrTicket)(c.cancel())
	})},
	{name: "cancels what a text nearly names", cases: []string{"tickets"}, open: cancelling(func(c change) error {
		err := c.cancel()
		if errors.Is(err, delayer.ErrTicket) {
			c.broker.forget()
		}
		return err
	})},
}
